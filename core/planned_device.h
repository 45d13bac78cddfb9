#pragma once
// For which kind of device arrays on meta are planned.
#include <hero/core/device.h>

namespace hero::core {

/// The kind of device whose kernels an array there would meet: its own, and of meta that of the
/// innermost PlannedDevice of this thread, or else the CPU. Operations ask it where kinds of
/// devices differ in what kernels take, so that a plan has the dtypes and pieces of the real
/// program.
DeviceType kernels_of(Device device);

/// While it lives, arrays on meta are planned for devices of this kind on this thread.
class PlannedDevice {
 public:
  explicit PlannedDevice(DeviceType type);
  ~PlannedDevice();
  PlannedDevice(const PlannedDevice&) = delete;
  PlannedDevice& operator=(const PlannedDevice&) = delete;

 private:
  DeviceType previous_;
};

}  // namespace hero::core
