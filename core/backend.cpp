#include <hero/core/accelerator.h>
#include <hero/core/backend.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/profile/metered_backend.h>

namespace hero::core {

Backend& cpu_backend() {
  static Backend& chosen = cpu::kernels().backend;
  return chosen;
}

namespace {

Backend& plain_backend(Device device) {
  if (device.type == DeviceType::cpu) return cpu_backend();
  if (device.type == DeviceType::meta) return meta_backend();
  return accelerator("backend", device).backend(device.index);
}

}  // namespace

Backend& backend(Device device) {
  Backend& plain = plain_backend(device);
  return work_meter ? metered(plain) : plain;
}

}  // namespace hero::core
