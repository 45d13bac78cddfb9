#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/nccl/device_calls.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist::nccl {

void DeviceCalls::add(DeviceCall call) {
  const std::lock_guard lock(mutex_);
  open_.push_back({std::move(call)});
}

void DeviceCalls::agree(uint64_t number) {
  const std::lock_guard lock(mutex_);
  for (Open& open : open_) {
    if (open.call.number > number) break;
    open.agreed = true;
  }
}

void DeviceCalls::forget_done() {
  try {
    for (; !open_.empty(); open_.pop_front()) {
      Open& first = open_.front();
      const FlightEntry& flight = first.call.flight;
      if (!first.begun && first.call.ready->reached()) {
        first.begun = true;
        if (flight.recorder) flight.recorder->begin(flight.number);
      }
      if (!first.call.done->reached()) return;
      if (flight.recorder) flight.recorder->complete(flight.number);
    }
  } catch (const Error&) {
    open_.clear();  // the GPU itself has failed, of which the rank hears when it waits for it
  }
}

std::optional<DeviceCalls::Oldest> DeviceCalls::look() {
  const std::lock_guard lock(mutex_);
  forget_done();
  if (open_.empty()) return std::nullopt;
  Open& first = open_.front();
  const Clock::time_point now = Clock::now();
  if (first.begun && first.agreed && !first.since) first.since = now;
  const std::chrono::duration<double> waited = now - first.since.value_or(now);
  return Oldest{first.call.number, first.call.where, first.call.phase, waited.count()};
}

bool DeviceCalls::agreed_left() {
  const std::lock_guard lock(mutex_);
  forget_done();
  return !open_.empty() && open_.front().agreed;
}

}  // namespace hero::dist::nccl
