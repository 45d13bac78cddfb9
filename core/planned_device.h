#pragma once
// The kind of device for which arrays on meta are planned.
#include <hero/core/device.h>

namespace hero::core {

/// The kind of device whose kernels would compute with arrays on this device: its own, or for meta
/// that of the innermost PlannedDevice on this thread, or else the CPU. Operations ask for it if
/// kinds of devices differ in what their kernels take, so that a plan has the dtypes and sizes of
/// the real program.
DeviceType kernels_of(Device device);

/// While it lives, arrays on meta are planned for devices of this kind, on this thread.
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
