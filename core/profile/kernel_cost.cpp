#include <iterator>
#include <utility>

#include <hero/core/profile/kernel_cost.h>
#include <hero/core/profile/metered_backend.h>

namespace hero::core {

constinit thread_local CostMeter* cost_meter = nullptr;

const char* name(KernelKind kind) {
  static constexpr const char* names[] = {"matmul",      "attention", "window",
                                          "elementwise", "reduce",    "copy"};
  static_assert(std::size(names) == kKernelKindCount);
  return names[static_cast<int>(kind)];
}

CostMeter* current_cost_meter() { return cost_meter; }

CostScope::CostScope(CostMeter* meter) : previous_(std::exchange(cost_meter, meter)) {}

CostScope::~CostScope() { cost_meter = previous_; }

}  // namespace hero::core
