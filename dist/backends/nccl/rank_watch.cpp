#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <hero/core/error.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/cuda/runtime/streams.cuh>
#include <hero/dist/backends/nccl/comm.h>
#include <hero/dist/backends/nccl/rank_watch.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist::nccl {
namespace {

// For the last calls, after another rank has failed: longer than that rank itself waits for them.
constexpr auto kAfterFailure = std::chrono::seconds(6);
constexpr auto kBetweenLooks = std::chrono::microseconds(50);

// What may help where more streams are in use than the GPU has queues for them: in a shared queue a
// call waits for what the GPU was asked for before on another stream, and so calls of ranks may
// wait for each other.
std::string queue_advice(Device device) {
  const int queues = cuda::hardware_queues(), streams = cuda::streams_in_use(device.index);
  if (streams <= queues) return "";
  return "; the " + std::to_string(streams) + " streams of " + to_string(device) + " share " +
         std::to_string(queues) + (queues == 1 ? " queue" : " queues") +
         " of the GPU: " + cuda::queue_remedy();
}

}  // namespace

RankWatch::RankWatch(Device device, std::string who, const Timeouts& timeouts,
                     std::function<bool()> failed)
    : device_(device), who_(std::move(who)), timeouts_(timeouts), failed_(std::move(failed)) {
  begin();
}

void RankWatch::add(Comm& comm) {
  const std::lock_guard lock(mutex_);
  comms_.push_back(&comm);
}

void RankWatch::remove(Comm& comm) {
  const std::lock_guard lock(mutex_);
  std::erase(comms_, &comm);
}

void RankWatch::check() const {
  if (!given_up_) return;
  const std::lock_guard lock(reason_mutex_);
  throw Error(reason_);
}

bool RankWatch::in_vain(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const cuda::DeviceGuard guard(device_.index, std::nothrow);
  std::optional<DeviceCalls::Oldest> oldest;
  bool late = false;
  std::string said;
  for (Comm* const comm : comms_) {
    const std::optional<DeviceCalls::Oldest> first = comm->calls().look();
    if (!first) continue;
    late = late || first->seconds >= timeouts_.of(first->phase);
    if (said.empty()) said = comm->async_error();
    if (!oldest || first->number < oldest->number) oldest = first;
  }
  const bool failed = oldest && failed_ && failed_();
  if (!failed) failed_since_.reset();
  if (failed && !failed_since_) failed_since_ = now;
  const bool left_alone = failed && now - *failed_since_ > kAfterFailure;
  if (said.empty() && !late && !left_alone) return false;
  std::string reason = oldest->where + ": ";
  if (!said.empty()) {
    reason += said;
  } else if (late) {
    reason += timeouts_.text(oldest->phase) +
              ": all ranks have asked for it, but it does not end on " + to_string(device_) +
              timeout_advice(oldest->phase) + queue_advice(device_);
    tell_late();
  } else {
    reason += "another rank has failed";
  }
  {
    const std::lock_guard reason_lock(reason_mutex_);
    reason_ = reason;
  }
  given_up_ = true;
  if (left_alone && !late && said.empty()) return true;
  // The host may stand still where it hears of nothing.
  std::fprintf(stderr, "%s: %s\n", who_.c_str(), reason.c_str());
  write_flight_records_of_failure();
  return true;
}

void RankWatch::abort() {
  const std::lock_guard lock(mutex_);
  std::vector<std::thread> threads;
  threads.reserve(comms_.size());
  for (Comm* const comm : comms_) {
    try {
      threads.emplace_back([comm] { comm->abort(); });
    } catch (const std::system_error&) {
      comm->abort();  // there is no thread to be had
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void RankWatch::wait_while(bool (*left)(Comm&), Clock::time_point deadline) {
  const auto any_left = [this, left] {
    const std::lock_guard lock(mutex_);
    return std::any_of(comms_.begin(), comms_.end(), [left](Comm* comm) { return left(*comm); });
  };
  while (!given_up_ && any_left() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void RankWatch::wait_until_done() {
  wait_while([](Comm& comm) { return comm.calls().agreed_left(); }, Clock::time_point::max());
  check();
}

void RankWatch::abort_all(Clock::time_point deadline) noexcept {
  wait_while([](Comm& comm) { return comm.calls().agreed_left() && comm.async_error().empty(); },
             deadline);
  abort();
}

}  // namespace hero::dist::nccl
