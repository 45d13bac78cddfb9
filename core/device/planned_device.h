#pragma once
// The kind of device for which arrays on meta are planned, and the host memory beside it.
#include <cstdint>

#include <hero/core/device.h>

namespace hero::core {

/// Host memory in a plan for a GPU: arrays there have shapes but no bytes, as all arrays on meta,
/// and are charged to the ledger like arrays on the cpu. The host computes with them.
inline constexpr Device kPlannedHost{DeviceType::meta, 1};

/// Copies to a GPU from host memory that is not page-locked go by way of some that is, if they have
/// at most so many bytes; a plan takes that memory, too.
inline constexpr int64_t kStagedBytes = int64_t{16} << 20;

/// The kind of device whose kernels would compute with arrays on this device: its own, or for meta
/// that of the innermost PlannedDevice on this thread, or else the CPU. Operations ask for it if
/// kinds of devices differ in what their kernels take, so that a plan has the dtypes and sizes of
/// the real program.
DeviceType kernels_of(Device device);

/// Where arrays in host memory are, beside arrays on this device: kCpu; beside meta that is planned
/// for a GPU kPlannedHost; and beside meta that is planned for the CPU that itself.
Device host_of(Device device);

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
