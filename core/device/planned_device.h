#pragma once
// PlannedDevice: the kind of device for which arrays on meta stand in a plan, and the host memory
// beside it.
#include <cstdint>

#include <hero/core/device.h>

namespace hero::core {

/// Host memory in a plan for a GPU: arrays on it have shapes but no bytes, as all arrays on meta,
/// and are charged to the ledger like arrays on the cpu. Operations on them count as the host's.
inline constexpr Device kPlannedHost{DeviceType::meta, 1};

/// Copies of up to this many bytes from host memory that is not page-locked to a GPU are staged in
/// page-locked memory; a plan counts that memory, too.
inline constexpr int64_t kStagedBytes = int64_t{16} << 20;

/// The kind of device whose kernels compute with arrays on this device: its own kind or, for meta,
/// the kind of the innermost PlannedDevice on this thread, by default the CPU. kernel_traits() asks
/// for it (core/device/kernel_traits.h), so that a plan has the dtypes and sizes of the real
/// program.
DeviceType kernels_of(Device device);

/// The device of arrays in host memory beside arrays on this device: kCpu; for meta that is planned
/// for a GPU, kPlannedHost; for meta that is planned for the CPU, `device` itself.
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
