#pragma once
// ErrorFeedback: what compressed buckets left out of each parameter's gradient, for dist's own
// files.
#include <map>
#include <string>
#include <vector>

#include <hero/dist/comm_hook.h>
#include <hero/dist/rank_states.h>

namespace hero::dist {

/// The errors of buckets, by the names of the parameters in them.
class ErrorFeedback {
 public:
  /// Float32 [buffer.numel()]: what was left out of the bucket's parameters, zeros at first. Where
  /// a step had other buckets the parameters' errors are moved.
  const Array& of(const GradBucket& bucket);
  /// Float32 [elements]: what was left out of this rank's part of the bucket's mean; zeros at first
  /// and where the bucket has become another.
  const Array& of_mean(const GradBucket& bucket, int64_t elements);

  optim::StateDict state_dict() const;
  /// An Error, which begins with `what`, leaves it as it was.
  void load_state_dict(const char* what, const optim::StateDict& dict);
  void reset() { buckets_.clear(), means_.clear(); }

 private:
  struct Bucket {
    std::vector<BucketParameter> parameters;
    Array error;
  };
  void move_errors(Bucket& to);

  std::vector<Bucket> buckets_;
  std::map<std::string, Array> means_;  // by bucket
};

}  // namespace hero::dist
