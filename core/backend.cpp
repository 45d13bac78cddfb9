#include <hero/core/backend.h>
#include <hero/core/cpu/cpu_backend.h>

namespace hero::core {

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

Backend& backend(Device device) {
  if (device.type == DeviceType::cpu) return cpu_backend();
  check(device.type == DeviceType::meta, "backend: device ", device,
        " is not available: this build has no CUDA backend; use cpu or meta");
  return meta_backend();
}

}  // namespace hero::core
