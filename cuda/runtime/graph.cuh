#pragma once
// The interface by which kernel families report to a step that may be captured.
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

/// Reports numbers that the host passes to a kernel and that may differ from step to step; a
/// replayed graph would repeat the old ones.
void note_values(const char* op, std::span<const double> values);
inline void note_value(const char* op, double value) { note_values(op, {&value, 1}); }

/// Coefficients of optimizer updates that a replayed graph reads from device memory; each replay
/// writes those of its step there.
class LiveCoefficients {
 public:
  static constexpr size_t kSlotBytes = 128, kSlots = 60;
  enum class Phase : uint8_t { warm_up, capture, replay };

  /// The coefficients of the graphed step that the calling thread runs, for an update whose
  /// coefficients each replay takes anew; null for all other updates.
  static LiveCoefficients* current();

  /// The place of an update's coefficients.
  struct Slot {
    std::byte* host = nullptr;          ///< to be filled; null if kernels get them as parameters
    const std::byte* device = nullptr;  ///< the address that kernels read
    bool launches = true;               ///< false in a replay, whose kernels are in the graph
  };
  /// The slot of the call's next update, which in a replay must be the same update as was captured.
  Slot next(core::UpdateOp op, DType dtype, std::span<const core::UpdateItem> items);

  /// Allocates the memory of the coefficients; called before the first call.
  void allocate(Device device);
  /// Called before a call, or a replay, of the calling thread.
  void begin(Phase phase);
  /// Called after a replay: checks that it made all updates that were captured.
  void end_replay() const;
  /// Launches the kernels that copy the coefficients to the device.
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

/// While it lives, `live` has the coefficients of the calling thread's graphed step; null: there
/// are none.
class LiveScope {
 public:
  explicit LiveScope(LiveCoefficients* live);
  ~LiveScope();
  LiveScope(const LiveScope&) = delete;
  LiveScope& operator=(const LiveScope&) = delete;

 private:
  LiveCoefficients* before_;
};

/// The state of the random numbers of a replayed step, in device memory: every replay has its own.
struct RandomBase {
  uint64_t seed = 0;
  uint64_t shift = 0;  ///< added to the number of the stream that was captured
};

/// For an operation that draws from this random stream: the state that its kernel reads to get the
/// replay's numbers, or null if the host gives the stream. Streams of the calling thread's default
/// generator advance from replay to replay; all others must be the same in every call.
const RandomBase* random_base(uint64_t seed, uint64_t stream);

}  // namespace hero::cuda
