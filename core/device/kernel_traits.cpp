#include <hero/core/device/kernel_traits.h>
#include <hero/core/device/planned_device.h>

namespace hero::core {

namespace {

constexpr KernelTraits kOfCpu{.takes_halves = false,
                              .has_host_calls = true,
                              .normalizes_bfloat16 = true,
                              .normalizes_groups = true,
                              .wants_large_calls = false};
constexpr KernelTraits kOfGpu{.takes_halves = true,
                              .has_host_calls = false,
                              .normalizes_bfloat16 = false,
                              .normalizes_groups = false,
                              .wants_large_calls = true};

}  // namespace

bool has_values(Device device) { return device.type != DeviceType::meta; }
bool is_host_memory(Device device) { return device.type == DeviceType::cpu; }
bool is_accelerator(Device device) { return has_values(device) && !is_host_memory(device); }

const KernelTraits& kernel_traits(Device device) {
  return kernels_of(device) == DeviceType::cpu ? kOfCpu : kOfGpu;
}

}  // namespace hero::core
