#pragma once
// Sorting pairs of keys and values: the one place that uses CUB, and its replacement on the CPU.
#include <hero/core/array.h>

namespace hero::cuda {

struct Pairs {
  core::Array keys, values;
};

/// The pairs in the order of their keys' lowest `bits` bits, pairs with equal keys in the order in
/// which they came. keys [n]: int32 or int64, taken as unsigned; values [n]: int64, or, which is
/// faster, int32 where n < 2^31; n > 0, both contiguous on the calling thread's current device.
Pairs sort_pairs(const core::Array& keys, const core::Array& values, int bits);

}  // namespace hero::cuda
