#pragma once
// Sorting keys with what belongs to them: the one place that knows CUB, and its stand-in on the
// CPU.
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
