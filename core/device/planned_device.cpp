#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/threads/thread_state.h>

namespace hero::core {

namespace {

thread_local DeviceType planned_type = DeviceType::cpu;
[[maybe_unused]] const ThreadSlot<DeviceType> kPlannedTypeSlot([] { return planned_type; },
                                                               [](DeviceType type) {
                                                                 planned_type = type;
                                                               });

}  // namespace

DeviceType kernels_of(Device device) {
  if (device == kPlannedHost) return DeviceType::cpu;
  return device.type == DeviceType::meta ? planned_type : device.type;
}

Device host_of(Device device) {
  if (device.type != DeviceType::meta) return kCpu;
  return kernels_of(device) == DeviceType::cpu ? device : kPlannedHost;
}

PlannedDevice::PlannedDevice(DeviceType type) : previous_(planned_type) {
  check(type != DeviceType::meta, "planned device: meta has no kernels; name cpu or cuda");
  planned_type = type;
}

PlannedDevice::~PlannedDevice() { planned_type = previous_; }

}  // namespace hero::core
