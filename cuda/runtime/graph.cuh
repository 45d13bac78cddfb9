#pragma once
// What the families tell a step that may be captured.
#include <cstdint>
#include <span>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/device/backend.h>

namespace hero::cuda {

struct HostValue {
  const char* op;
  double value;
};
using HostValues = std::vector<HostValue>;

/// Numbers that the host gives to a kernel and that may differ from step to step; a replayed graph
/// would repeat them.
void note_values(const char* op, std::span<const double> values);
inline void note_value(const char* op, double value) { note_values(op, {&value, 1}); }

/// Coefficients of an optimizer's updates that a replayed graph reads from device memory, where
/// each replay puts those of its step.
class LiveCoefficients {
 public:
  static constexpr size_t kSlotBytes = 128, kSlots = 60;
  enum class Phase : uint8_t { warm_up, capture, replay };

  /// Those of the graphed step that the calling thread is in, for an update whose coefficients each
  /// replay takes anew; null for all other updates.
  static LiveCoefficients* current();

  /// Where an update's coefficients go.
  struct Slot {
    std::byte* host = nullptr;          ///< to be filled; null where kernels are given them
    const std::byte* device = nullptr;  ///< what kernels read
    bool launches = true;               ///< false in a replay, whose kernels are recorded
  };
  /// That of the call's next update, which in a replay must be the one that was captured.
  Slot next(core::UpdateOp op, DType dtype, std::span<const core::UpdateItem> items);

  /// Before the first call: where the coefficients will lie.
  void allocate(Device device);
  /// Before a call, or a replay, of the calling thread.
  void begin(Phase phase);
  /// After a replay: whether it made all updates that were captured is checked.
  void end_replay() const;
  /// Launches what brings the coefficients to the device.
  void send() const;

 private:
  struct Update {
    uint16_t op;
    DType dtype;
    size_t items;
  };
  core::Array device_;
  std::vector<Update> captured_;
  std::vector<std::byte> host_;
  size_t used_ = 0;
  Phase phase_ = Phase::warm_up;
};

/// The calling thread's graphed step has these while it lives; null: it has none.
class LiveScope {
 public:
  explicit LiveScope(LiveCoefficients* live);
  ~LiveScope();
  LiveScope(const LiveScope&) = delete;
  LiveScope& operator=(const LiveScope&) = delete;

 private:
  LiveCoefficients* before_;
};

/// Where the random numbers of a replayed step are, in device memory: every replay has its own.
struct RandomBase {
  uint64_t seed = 0;
  uint64_t shift = 0;  ///< added to the number of the stream that was captured
};

/// For an operation that draws from this stream: what its kernel reads to get the replay's numbers,
/// or null when they are those that the host says. Streams of the calling thread's default
/// generator advance from replay to replay, all others must be the same in every call.
const RandomBase* random_base(uint64_t seed, uint64_t stream);

}  // namespace hero::cuda
