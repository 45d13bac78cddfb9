#pragma once
// Exact sums of arrays on the cpu, compiled for each level (core/cpu/kernels.h).
#include <cstdint>
#include <span>

#include <hero/core/device/backend.h>

namespace hero::core::cpu {

/// words += the sum over all elements of |x| (sum_abs) or x^2 (sum_square), exact::kWords of them.
/// Arrays are contiguous and of any floating dtype.
void add_exact_sum(ReduceKind op, std::span<const Array> xs, int64_t* words);

}  // namespace hero::core::cpu
