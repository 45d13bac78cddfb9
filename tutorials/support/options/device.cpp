#include "support/options/device.h"

#include <hero/core/accelerator.h>

namespace tutorial {

using hero::Device, hero::DeviceType;

namespace {
thread_local Device current = hero::kCpu;
}  // namespace

Device device() { return current; }

OnDevice::OnDevice(Device device) : previous_(current), modules_(device) {
  if (device.type == DeviceType::cuda) hero::core::accelerator("--device", device);
  current = device;
}
OnDevice::~OnDevice() { current = previous_; }

}  // namespace tutorial
