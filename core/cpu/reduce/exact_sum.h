#pragma once
// Exact sums of numbers in memory.
#include <cstdint>

#include <hero/core/functions/exact_accumulator.h>

namespace hero::core::cpu {

/// Adds the squares of n numbers.
void add_squares(ExactAccumulator& sum, const float* x, int64_t n);

}  // namespace hero::core::cpu
