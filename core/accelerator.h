#pragma once
// The interface to devices with memory of their own. A library above registers what drives them;
// core knows no more of them than stands here.
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
class Point;

/// The two ways of copies between the host and a device, which do not wait for each other.
enum class Way : uint8_t { to_device, to_host };

/// While it lives the calling thread's work for one device goes into another stream than before,
/// behind all that the thread has asked the device for until then.
class Aside {
 public:
  Aside() = default;
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  virtual ~Aside() = default;
};

/// Devices of one kind (DeviceType::cuda), numbered from 0.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  /// How many can be used now; 0 without a driver.
  virtual int device_count() = 0;
  /// Why there is none and what to do, as the end of an error; asked only when device_count() is 0.
  virtual std::string reason() = 0;
  virtual Backend& backend(int index) = 0;
  /// Bytes of device memory for the calling thread's current stream, uninitialised; bytes > 0.
  virtual void* allocate(int64_t bytes, int index) = 0;
  /// Takes a block back; what the stream of its allocation was asked to do with it still happens.
  virtual void deallocate(void* block, int64_t bytes, int index) noexcept = 0;
  /// Page-locked memory of the host (<hero/core/allocator.h>), which the devices copy from and to
  /// at their full speed.
  virtual HostMemory& host_memory() = 0;
  /// What ranks that share the device use.
  virtual Exchange& exchange(int index) = 0;
  /// An array in page-locked memory of the host, which copies need not wait for; uninitialised.
  virtual Array pinned(const Shape& shape, DType dtype) = 0;
  /// Begins to copy between such an array and one of a device, both contiguous and of one shape and
  /// dtype, in the calling thread's current stream. The host does not wait, and either array may be
  /// let go meanwhile; before the host touches the values it waits for a later Point.
  virtual void copy_async(const Array& src, const Array& dst) = 0;
  /// Another stream of the calling thread, always the same one for a device and a way.
  virtual std::unique_ptr<Aside> aside(Way way, int index) = 0;
  /// Where the calling thread's current streams stand, on all devices that were used by anyone.
  virtual std::vector<std::shared_ptr<Point>> points() = 0;
};

/// Registers the one accelerator of the process, which must outlive all arrays.
void set_accelerator(Accelerator* accelerator);

/// The accelerator, when `device` is one of its devices; else throws an error that begins with `op`
/// and says what is missing.
Accelerator& accelerator(const char* op, Device device);

}  // namespace hero::core
