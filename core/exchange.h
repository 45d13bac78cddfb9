#pragma once
// The interface by which ranks exchange arrays on a device: copies, sums in the order of ranks, and
// the order between their streams. The host does not wait.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hero/core/dtype.h>
#include <hero/core/kernels/combine.h>

namespace hero::core {

/// An event in the queue of work of a stream, such as a CUDA event. Any thread may use it at any
/// time.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Makes all later work in the calling thread's current stream, on the event's device, begin
  /// after the event.
  virtual void join() = 0;
  /// join(), when the calling thread first has work for the event's device, if that is to come.
  virtual void join_before_use() = 0;
  /// True if the device has reached the event.
  virtual bool reached() = 0;
  /// Makes the host wait until the device has reached the event.
  virtual void wait() = 0;
};

/// The operations by which a device exchanges data of ranks whose arrays are on it. They are queued
/// in the calling thread's current stream.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Records an event after all work that the stream has been given so far.
  virtual std::shared_ptr<DeviceEvent> record_event() = 0;
  virtual void copy(const std::byte* from, std::byte* to, int64_t bytes) = 0;
  /// output[i] = inputs[0][i] (op) inputs[1][i] (op) ... in the fold's order, bitwise identical to
  /// the result on the host (dist/backends/ordered_reduce.h). `output` may be one of the inputs.
  virtual void combine(const Fold& fold, std::span<const std::byte* const> inputs,
                       std::byte* output, int64_t count) = 0;
};

/// Records an event after all work queued so far in the calling thread's current stream, for each
/// device for which the thread had work. A thread that continues the work of this one joins these
/// events.
std::vector<std::shared_ptr<DeviceEvent>> events_of_thread();

/// Calls join() of all events.
void join_all(std::span<const std::shared_ptr<DeviceEvent>> events);
/// Calls join_before_use() of all events.
void join_all_before_use(std::span<const std::shared_ptr<DeviceEvent>> events);

}  // namespace hero::core
