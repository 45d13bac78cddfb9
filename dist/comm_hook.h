#pragma once
// Communication hooks: what DDP does with a bucket of gradients instead of the all_reduce.
//
//   dist::CodecHook hook({.codec = dist::Codec::int8});
//   ddp.register_comm_hook(hook);   // a quarter of the bytes
//   checkpoint.track("hook", hook);  // what the bytes left out, which later steps make up for
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/functions/codec.h>
#include <hero/dist/communicator.h>
#include <hero/dist/rank_states.h>

namespace hero::dist {

using core::Codec;

/// Calls that are under way, and the steps that follow when they are complete, one after the other,
/// each of which may make further calls. Steps run on the rank's own thread, at the same places of
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
  double divide_by = 1.0;                   ///< what the sum over the ranks is divided by
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

/// \name Gradients in half precision
/// \{
/// Sends gradients as float16: they are rounded, added up in float32, and the mean is rounded once.
/// It sends half the bytes of float32. Values beyond the range of float16 become infinite, as
/// optim::GradScaler expects.
CommHook fp16_compress_hook();
/// Sends gradients as bfloat16, in the same way.
CommHook bf16_compress_hook();
/// \}

/// Options of CodecHook.
struct CodecHookOptions {
  Codec codec = Codec::int8;  ///< the format of what is sent
  /// True: errors of the rounding are added to the next step's gradients.
  bool error_feedback = true;
};

/// Sends gradients in the format of a codec: every rank sends each other rank its part of the
/// bucket, adds up the parts that it receives in the order of ranks, divides, and sends the mean to
/// all ranks in the same format. For a bucket of n elements, each of N ranks sends 2 (N - 1)
/// encoded_bytes(codec, row) bytes, where row = row_elements(codec, n, N). With error feedback a
/// rank needs 4 bytes for each element of its own gradients, and 4 for each element of its part of
/// the mean. Gradients are float32 or of half precision.
///
/// It is a handle; each rank makes its own, one for each DDP. If a gradient is not finite, the mean
/// of its block (of its part of the bucket for a codec of signs) is NaN on every rank, and errors
/// stay finite.
class CodecHook : public RankStates {
 public:
  /// Makes a hook whose errors are 0.
  explicit CodecHook(const CodecHookOptions& options = {});
  CodecHook(const CodecHook&) = default;  // what is moved from stays whole
  CodecHook& operator=(const CodecHook&) = default;
  operator CommHook() const;  // NOLINT(google-explicit-constructor)
  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// Options of PowerSGDHook.
struct PowerSGDOptions {
  int64_t rank = 1;  ///< the rank of the two factors that stand for a matrix
  /// Matrices that would shrink by a smaller factor are sent whole.
  double min_compression_rate = 2.0;
  /// True: what the factors leave out is added to the next step's gradients.
  bool error_feedback = true;
  bool warm_start = true;  ///< true: a step begins with the factor of the last step
  uint64_t seed = 0;       ///< seed of the initial factors
};

/// Sends the gradient M of a matrix as a product of two thin matrices: P = M Q is averaged over the
/// ranks and its columns are made orthonormal; Q = M^T P is averaged; then M is replaced by P Q^T.
/// A gradient of shape [m, ..] counts as a matrix [m, numel / m], and the two all_reduces are of 4
/// r (m + numel / m) bytes, with r = rank, instead of 4 numel; vectors are sent whole together with
/// P. Gradients are float32. Vogels, Karimireddy and Jaggi, arXiv 1905.13727.
///
/// It is a handle; each rank makes its own, one for each DDP. A matrix with a gradient that is not
/// finite becomes NaN on every rank, and its error becomes 0.
class PowerSGDHook : public RankStates {
 public:
  /// Makes a hook whose errors are 0.
  explicit PowerSGDHook(const PowerSGDOptions& options = {});
  PowerSGDHook(const PowerSGDHook&) = default;  // what is moved from stays whole
  PowerSGDHook& operator=(const PowerSGDHook&) = default;
  operator CommHook() const;  // NOLINT(google-explicit-constructor)
  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hero::dist
