#pragma once
// A meter that adds up.
#include <array>
#include <cstdint>

#include <hero/core/profile/work.h>

namespace hero_test {

/// Work by kind, and how many calls there were.
struct WorkSum : hero::core::WorkMeter {
  void charge(const hero::core::Work& work) override {
    const auto kind = static_cast<size_t>(work.kind);
    flops[kind] += work.flops;
    bytes[kind] += work.bytes;
    launches += work.launches;
    ++calls;
  }
  int64_t flops_of(hero::core::WorkKind kind) const { return flops[static_cast<size_t>(kind)]; }
  int64_t bytes_of(hero::core::WorkKind kind) const { return bytes[static_cast<size_t>(kind)]; }

  std::array<int64_t, hero::core::kWorkKindCount> flops = {}, bytes = {};
  int64_t launches = 0;
  int calls = 0;
};

}  // namespace hero_test
