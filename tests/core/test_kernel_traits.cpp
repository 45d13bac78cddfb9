// What operations are told of a device.
#include <support/catch.h>

#include <hero/core/device/kernel_traits.h>
#include <hero/core/device/planned_device.h>

namespace {

using namespace hero;
using namespace hero::core;

constexpr Device kGpu{DeviceType::cuda, 0};

TEST_CASE("values lie in the host's memory, in an accelerator's, or nowhere", "[core]") {
  CHECK(has_values(kCpu));
  CHECK(is_host_memory(kCpu));
  CHECK(!is_accelerator(kCpu));
  CHECK(has_values(kGpu));
  CHECK(!is_host_memory(kGpu));
  CHECK(is_accelerator(kGpu));
  for (const Device device : {Device(kMeta), kPlannedHost}) {
    CHECK(!has_values(device));
    CHECK(!is_host_memory(device));
    CHECK(!is_accelerator(device));
  }
}

TEST_CASE("meta has the traits of the kernels that it is planned for", "[core]") {
  const KernelTraits& cpu = kernel_traits(kCpu);
  const KernelTraits& gpu = kernel_traits(kGpu);
  CHECK(!cpu.takes_halves);
  CHECK(cpu.has_host_calls);
  CHECK(!cpu.wants_large_calls);
  CHECK(gpu.takes_halves);
  CHECK(!gpu.has_host_calls);
  CHECK(gpu.wants_large_calls);
  CHECK(&kernel_traits(kMeta) == &cpu);
  const PlannedDevice planned(DeviceType::cuda);
  CHECK(&kernel_traits(kMeta) == &gpu);
  CHECK(&kernel_traits(kPlannedHost) == &cpu);
}

}  // namespace
