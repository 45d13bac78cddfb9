// Coefficients of optimizer updates that each replay of a graph takes anew.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <hero/core/device/host_steps.h>
#include <hero/cuda/runtime/graph.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

thread_local LiveCoefficients* of_thread = nullptr;

constexpr size_t kSlotsALaunch = 30;  // a kernel's parameters have 4 KB

struct SlotsByValue {
  uint4 packs[kSlotsALaunch * LiveCoefficients::kSlotBytes / sizeof(uint4)];
};

// They travel as parameters: unlike a copy from the host's memory, no later replay overtakes them.
__global__ void live_coefficients_kernel(const SlotsByValue slots, uint4* to, unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = slots.packs[threadIdx.x];
}

}  // namespace

LiveScope::LiveScope(LiveCoefficients* live) : before_(std::exchange(of_thread, live)) {}
LiveScope::~LiveScope() { of_thread = before_; }

LiveCoefficients* LiveCoefficients::current() {
  if (!of_thread) [[likely]]
    return nullptr;
  const core::HostSteps* const steps = core::HostSteps::current();
  return steps && steps->taking() ? of_thread : nullptr;
}

void LiveCoefficients::allocate(Device device) {
  host_.resize(kSlots * kSlotBytes);
  device_ = core::Array::empty({static_cast<int64_t>(host_.size())}, kUInt8, device);
}

void LiveCoefficients::begin(Phase phase) {
  phase_ = phase;
  used_ = 0;
  if (phase == Phase::capture) captured_.clear();
}

LiveCoefficients::Slot LiveCoefficients::next(core::UpdateOp op, DType dtype,
                                              std::span<const core::UpdateItem> items) {
  if (phase_ == Phase::warm_up) return {};
  const size_t at = used_++;
  if (phase_ == Phase::capture) {
    check(at < kSlots, "graphed step: more than ", kSlots,
          " updates have coefficients of their own in a call; use recapture");
    captured_.push_back({op.index, dtype, items.size()});
  } else {
    check(at < captured_.size() && captured_[at].op == op.index && captured_[at].dtype == dtype &&
              captured_[at].items == items.size(),
          "graphed step: the optimizer's updates are others than those that were captured: of this "
          "step, update ",
          at, " is of ", items.size(), " parameters",
          at < captured_.size() ? " where there was one of " : " where there was none",
          at < captured_.size() ? std::to_string(captured_[at].items) : "",
          "; a graph repeats one call, so use recapture");
  }
  const size_t begin = at * kSlotBytes;
  return {host_.data() + begin, device_.bytes() + begin, phase_ == Phase::capture};
}

void LiveCoefficients::end_replay() const {
  check(used_ == captured_.size(), "graphed step: the optimizer makes ", used_,
        " updates where the captured call made ", captured_.size(),
        "; a graph repeats one call, so use recapture");
}

void LiveCoefficients::send() const {
  for (size_t first = 0; first < used_; first += kSlotsALaunch) {
    const size_t bytes = std::min(kSlotsALaunch, used_ - first) * kSlotBytes;
    SlotsByValue slots;
    std::memcpy(slots.packs, host_.data() + first * kSlotBytes, bytes);
    const auto count = static_cast<unsigned>(bytes / sizeof(uint4));
    launch("graphed step", live_coefficients_kernel, dim3(1), dim3(256), 0, slots,
           reinterpret_cast<uint4*>(device_.bytes() + first * kSlotBytes), count);
  }
}

}  // namespace hero::cuda
