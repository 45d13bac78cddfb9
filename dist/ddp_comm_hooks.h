#pragma once
// Communication hooks for DDP that send fewer bytes: half precision, codecs, PowerSGD.
//
// dist::CodecHook hook({.codec = dist::Codec::int8}); ddp.register_comm_hook(hook);   // a quarter
// of the bytes checkpoint.track("hook", hook);  // its compression errors, which are added to later
// gradients
#include <cstdint>
#include <memory>

#include <hero/core/functions/codec.h>
#include <hero/dist/comm_hook.h>
#include <hero/dist/rank_states.h>

namespace hero::dist {

using core::Codec;

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
  /// True: rounding errors are added to the next step's gradients.
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
  // No move is declared, so that a handle that was moved from still refers to the same object.
  CodecHook(const CodecHook&) = default;
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
  int64_t rank = 1;  ///< rank of the low-rank approximation of a matrix
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
  // No move is declared, so that a handle that was moved from still refers to the same object.
  PowerSGDHook(const PowerSGDHook&) = default;
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
