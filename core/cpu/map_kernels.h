#pragma once
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core::cpu {

/// A functor over `n` contiguous elements of one compute type.
using MapKernel = void (*)(int64_t n, const std::byte* const* inputs, std::byte* out);

/// The kernel of MapList position `index` for a compute dtype (float32, float64, int64, int32,
/// uint8); null where the functor does not compute in that type. One table a type, one file a
/// table.
MapKernel map_kernel(uint16_t index, DType compute);

/// The functor writes bool.
bool map_is_predicate(uint16_t index);

template <class T>
MapKernel map_kernel_of(uint16_t index);

}  // namespace hero::core::cpu
