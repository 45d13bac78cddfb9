#pragma once
// Communication hooks: what DDP does with a bucket of gradients in place of the all_reduce.
//
//   dist::CodecHook hook({.codec = dist::Codec::int8});
//   ddp.register_comm_hook(hook);   // a quarter of the bytes
//   checkpoint.track("hook", hook);  // what the bytes left out, which later steps carry on
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

/// Calls that are under way, and what follows when they are complete: steps, one behind the other,
/// each of which may make further calls. Steps run on the rank's own thread, at the same places of
/// the program on every rank.
class Future {
 public:
  Future() = default;
  explicit Future(Work work) : work_(std::move(work)) {}
  /// Adds a step, a function without arguments that returns a Work, which the next step waits for,
  /// or nothing.
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
  /// Waits for the call under way and runs the next step, where there is one.
  void advance();
  /// Returns when everything is done.
  void wait();
  /// Waits for the call under way and forgets the steps.
  void abandon();

 private:
  Work work_;
  std::vector<std::function<Work()>> steps_;
  size_t next_ = 0;
};

/// One parameter's gradient in a bucket.
struct BucketParameter {
  std::string name;
  int64_t begin = 0;  ///< its first element in the buffer
  Shape shape;
};

/// Gradients that DDP averages together. A handle, to be copied into steps.
struct GradBucket {
  Communicator comm;
  int index = 0;         ///< among DDP's buckets, in the order in which they are averaged
  bool is_last = false;  ///< of this backward
  /// [n], contiguous, of the gradients' dtype: this rank's gradients one behind the other, with
  /// zeros in gaps of fewer than 8 elements. The hook leaves the mean over the ranks in it.
  Array buffer;
  std::vector<BucketParameter> parameters;
  double divide_by = 1.0;  ///< what the sum of the ranks' gradients is divided by
  /// Options of the all_reduce that DDP makes without a hook: an asynchronous mean.
  CallOptions mean;
};

/// A function of a bucket under a name that all ranks give it. It begins the calls that every rank
/// makes, with arrays that live until these are complete (in the steps), and returns at once: the
/// calls go on while backward does. The first step of a bucket runs when the next bucket has begun,
/// the second when the one after it has, and what is left at the end of backward. Its calls are
/// named like DDP's own in Traffic and in errors.
struct CommHook {
  std::string name;
  std::function<Future(const GradBucket&)> run;
};

/// \name Gradients travel in a half: the mean over the ranks of gradients rounded to it, added up
/// in float32 and rounded once. Half the bytes of float32. What float16 does not hold becomes
/// infinite, as optim::GradScaler expects.
/// \{
CommHook fp16_compress_hook();
CommHook bf16_compress_hook();
/// \}

struct CodecHookOptions {
  Codec codec = Codec::int8;
  bool error_feedback = true;  ///< what the bytes leave out is added to the next step's gradients
};

/// Gradients travel in bytes of a codec: every rank sends each rank its part of the bucket, adds up
/// the parts that it gets in the order of ranks, divides, and sends the mean to all in the same
/// codec. A bucket of n elements on N ranks sends 2 (N - 1) encoded_bytes(codec, row) bytes, row =
/// row_elements(codec, n, N). With error feedback a rank holds 4 bytes an element for its own
/// gradients and 4 for its part of the mean. Float32 and half gradients.
///
/// A handle; each rank makes its own, one for each DDP. Where a gradient is not finite the mean of
/// its block, or of its part of the bucket for signs, is NaN on every rank, and errors stay finite.
class CodecHook : public RankStates {
 public:
  explicit CodecHook(const CodecHookOptions& options = {});
  operator CommHook() const;  // NOLINT(google-explicit-constructor)
  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

struct PowerSGDOptions {
  int64_t rank = 1;                   ///< of the two factors that stand for a matrix
  double min_compression_rate = 2.0;  ///< matrices that would shrink by less travel whole
  bool error_feedback = true;
  bool warm_start = true;  ///< a step begins with the last one's factor
  uint64_t seed = 0;       ///< of the first factors
};

/// Gradients of matrices travel as products of two thin ones: P = M Q, the mean of P over the
/// ranks, its columns made orthonormal, Q = M^T P, the mean of Q; M becomes P Q^T. A gradient of
/// shape [m, ..] counts as a matrix [m, numel / m] and sends 4 r (m + numel / m) bytes in place of
/// 4 numel, twice (N - 1) / N of them as every all_reduce; vectors travel whole beside P. Float32
/// gradients. Vogels, Karimireddy and Jaggi, arXiv 1905.13727.
///
/// A handle; each rank makes its own, one for each DDP. A matrix with a gradient that is not finite
/// becomes NaN on every rank, and its error 0.
class PowerSGDHook : public RankStates {
 public:
  explicit PowerSGDHook(const PowerSGDOptions& options = {});
  operator CommHook() const;  // NOLINT(google-explicit-constructor)
  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hero::dist
