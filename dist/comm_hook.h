#pragma once
// Communication hooks: what DDP does with a bucket of gradients instead of the all_reduce. The
// hooks of the library are in ddp_comm_hooks.h.
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// An asynchronous call and a sequence of steps. Each step runs when the call before it is
/// complete, and may begin the next call. Steps run on the rank's own thread, at the same places of
/// the program on every rank.
class Future {
 public:
  /// Makes a future that has nothing to wait for.
  Future() = default;
  /// Makes a future that waits for a call.
  explicit Future(Work work) : work_(std::move(work)) {}
  /// Adds a step: a function without arguments that returns nothing, or a Work that the next step
  /// waits for.
  template <class F>
  Future then(F step) && {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      steps_.emplace_back([step = std::move(step)]() mutable {
        step();
        return Work();
      });
    } else {
      steps_.emplace_back(std::move(step));
    }
    return std::move(*this);
  }
  /// Waits for the call under way and runs the next step, if there is one.
  void advance();
  /// Waits until everything is done.
  void wait();
  /// Waits for the call under way and drops the steps.
  void abandon();

 private:
  Work work_;
  std::vector<std::function<Work()>> steps_;
  size_t next_ = 0;
};

/// The gradient of one parameter in a bucket.
struct BucketParameter {
  std::string name;   ///< the name of the parameter in the module
  int64_t begin = 0;  ///< index of its first element in the buffer
  Shape shape;        ///< the shape of the parameter
};

/// A bucket of gradients, which DDP averages together. It is a handle, which you may copy into
/// steps.
struct GradBucket {
  Communicator comm;  ///< the ranks that average it
  int index = 0;      ///< its number among DDP's buckets, in the order in which they are averaged
  bool is_last = false;  ///< true for the last bucket of this backward pass
  /// [n], contiguous, in the gradients' dtype: this rank's gradients one after the other, with
  /// zeros in gaps of fewer than 8 elements. The hook replaces them by the mean over the ranks.
  Array buffer;
  std::vector<BucketParameter> parameters;  ///< which parameters have their gradients in the buffer
  double divide_by = 1.0;                   ///< divisor of the sum over the ranks
  /// The options of the all_reduce that DDP makes if there is no hook: an asynchronous mean.
  CallOptions mean;
};

/// A function of a bucket, with a name that is the same on all ranks. It begins calls, the same on
/// every rank, with arrays that live until these are complete (hold them in the steps), and returns
/// at once, so that the calls overlap with backward. The first step of a bucket runs when the next
/// bucket has begun, the second when the bucket after that has, and the remaining ones at the end
/// of backward. In Traffic and in errors its calls have the same names as DDP's own.
struct CommHook {
  std::string name;  ///< a name, the same on all ranks
  /// Begins the calls for a bucket and returns what follows them.
  std::function<Future(const GradBucket&)> run;
};

}  // namespace hero::dist
