#pragma once
// ErrorFeedback: the compression errors of each parameter's gradient, which are added to the
// gradient of the next step; internal to dist.
#include <map>
#include <string>
#include <vector>

#include <hero/dist/comm_hook.h>
#include <hero/dist/rank_states.h>

namespace hero::dist {

/// The errors of buckets, by the names of the parameters in them.
class ErrorFeedback {
 public:
  /// Float32 [buffer.numel()]: the errors of the bucket's parameters, zeros at first. If the last
  /// step had other buckets, the parameters' errors are moved to this one.
  const Array& of(const GradBucket& bucket);
  /// Float32 [elements]: the errors of this rank's part of the bucket's mean; zeros at first and
  /// when the bucket has changed.
  const Array& of_mean(const GradBucket& bucket, int64_t elements);

  optim::StateDict state_dict() const;
  /// Throws an Error that begins with `what`, and changes nothing, if the state does not fit.
  void load_state_dict(const char* what, const optim::StateDict& dict);
  void reset() { buckets_.clear(), means_.clear(); }

 private:
  struct Bucket {
    std::vector<BucketParameter> parameters;
    Array error;
  };
  void move_errors(Bucket& to);

  std::vector<Bucket> buckets_;
  std::map<std::string, Array> means_;  // errors of the means, by bucket
};

}  // namespace hero::dist
