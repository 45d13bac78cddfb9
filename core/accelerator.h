#pragma once
// The interface to devices with memory of their own. A library above core registers the
// implementation; core knows nothing else about these devices.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dims.h>
#include <hero/core/dtype.h>

namespace hero::core {

class Array;
class Backend;
class Exchange;
class HostMemory;
class DeviceEvent;

/// The two directions of copies between the host and a device. Copies in one direction do not wait
/// for those in the other.
enum class CopyDirection : uint8_t { to_device, to_host };

/// While it lives, the calling thread queues its work for a device in another stream, which waits
/// for all work that the thread has queued on the device before.
class StreamGuard {
 public:
  StreamGuard() = default;
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  virtual ~StreamGuard() = default;
};

/// Devices of one kind (DeviceType::cuda), numbered from 0.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  /// The number of devices that can be used now; 0 without a driver.
  virtual int device_count() = 0;
  /// Why there is no device and what to do, as the end of an error message; called only if
  /// device_count() is 0.
  virtual std::string reason() = 0;
  virtual Backend& backend(int index) = 0;
  /// Bytes of device memory for the calling thread's current stream, uninitialised; bytes > 0.
  virtual void* allocate(int64_t bytes, int index) = 0;
  /// Frees a block; work on it that is already queued in the stream of its allocation still
  /// completes.
  virtual void deallocate(void* block, int64_t bytes, int index) noexcept = 0;
  /// Page-locked host memory (<hero/core/memory/allocator.h>), which the devices copy from and to
  /// at full speed.
  virtual HostMemory& host_memory() = 0;
  /// The interface for ranks that share the device.
  virtual Exchange& exchange(int index) = 0;
  /// An uninitialised array in page-locked host memory, for copies that the host does not wait for.
  virtual Array pinned(const Shape& shape, DType dtype) = 0;
  /// Begins to copy between a pinned() array and one on a device, both contiguous and of the same
  /// shape and dtype, in the calling thread's current stream. The host does not wait, and either
  /// array may be dropped meanwhile; before the host uses the values, it has to wait for an
  /// event that was recorded after the copy.
  virtual void copy_async(const Array& src, const Array& dst) = 0;
  /// Switches to another stream of the calling thread while the result lives: one stream for each
  /// device and direction.
  virtual std::unique_ptr<StreamGuard> copy_stream(CopyDirection direction, int index) = 0;
  /// Records an event after all work queued so far in the calling thread's current stream, for each
  /// device for which the thread had work.
  virtual std::vector<std::shared_ptr<DeviceEvent>> record_events() = 0;
};

/// Registers the one accelerator of the process, which must outlive all arrays.
void set_accelerator(Accelerator* accelerator);

/// The accelerator, if `device` is one of its devices. For meta that stands for a GPU
/// (PlannedDevice), an accelerator that moves no bytes. Otherwise throws an Error that begins with
/// `op` and says what is missing.
Accelerator& accelerator(const char* op, Device device);

}  // namespace hero::core
