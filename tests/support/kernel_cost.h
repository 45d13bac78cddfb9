#pragma once
// A meter that adds up.
#include <array>
#include <cstdint>

#include <hero/core/profile/kernel_cost.h>

namespace hero_test {

/// Costs by kind of kernel, and how many calls there were.
struct CostSum : hero::core::CostMeter {
  void charge(const hero::core::KernelCost& cost) override {
    const auto kind = static_cast<size_t>(cost.kind);
    flops[kind] += cost.flops;
    bytes[kind] += cost.bytes;
    launches += cost.launches;
    ++calls;
  }
  int64_t flops_of(hero::core::KernelKind kind) const { return flops[static_cast<size_t>(kind)]; }
  int64_t bytes_of(hero::core::KernelKind kind) const { return bytes[static_cast<size_t>(kind)]; }

  std::array<int64_t, hero::core::kKernelKindCount> flops = {}, bytes = {};
  int64_t launches = 0;
  int calls = 0;
};

}  // namespace hero_test
