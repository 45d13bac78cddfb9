// Operations on meta that is planned for a GPU take the dtypes that they would take there.
#include <support/catch.h>
#include <support/kernel_cost.h>

#include <hero/autograd/autograd.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/profile/kernel_cost.h>

namespace {

using namespace hero;
using namespace hero::core;
using hero_test::CostSum;

TEST_CASE("unfold and fold of halves convert them for the CPU alone", "[autograd]") {
  const Tensor x = zeros({1, 1, 4, 4}, {.dtype = kBFloat16, .device = kMeta});
  const auto sum_of = [&](DeviceType type) {
    const PlannedDevice planned(type);
    CostSum sum;
    const CostScope scope(&sum);
    fold(unfold(x, {2, 2}), {4, 4}, {2, 2});
    return sum;
  };
  constexpr int64_t kElements = 2 * (16 + 4 * 9);  // of images and of columns
  const CostSum cpu = sum_of(DeviceType::cpu), gpu = sum_of(DeviceType::cuda);
  CHECK(cpu.bytes_of(KernelKind::window) == 4 * kElements);
  CHECK(cpu.bytes_of(KernelKind::copy) > 0);
  CHECK(gpu.bytes_of(KernelKind::window) == 2 * kElements);
  CHECK(gpu.bytes_of(KernelKind::copy) == 0);
}

}  // namespace
