#pragma once
// The interface to devices with memory of their own. A library above registers what drives them;
// core knows no more of them than stands here.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/device.h>

namespace hero::core {

class Backend;
class Exchange;
class Point;

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
  /// What ranks that share the device use.
  virtual Exchange& exchange(int index) = 0;
  /// Where the calling thread's current streams stand, on all devices that were used by anyone.
  virtual std::vector<std::shared_ptr<Point>> points() = 0;
};

/// Registers the one accelerator of the process, which must outlive all arrays.
void set_accelerator(Accelerator* accelerator);

/// The accelerator, when `device` is one of its devices; else throws an error that begins with `op`
/// and says what is missing.
Accelerator& accelerator(const char* op, Device device);

}  // namespace hero::core
