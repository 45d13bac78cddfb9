#pragma once
// For tests of the CUDA backend, which run over tests/cusim everywhere and on a GPU where one is.
#include <iostream>

#include "support/catch.h"

#include <hero/cuda/cuda.h>

namespace hero_test {

inline constexpr hero::Device kGpu{hero::DeviceType::cuda, 0};

}  // namespace hero_test

/// Ends a test case where there is no GPU; ctest counts it as skipped.
#define HERO_NEEDS_GPU()                                           \
  if (!hero::cuda::is_available()) {                               \
    std::cout << "skipped: " << hero::cuda::reason() << std::endl; \
    SUCCEED("skipped: no GPU");                                    \
    return;                                                        \
  }
