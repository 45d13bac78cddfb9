#pragma once
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core::cpu {

/// A functor over `n` contiguous elements of one compute type. Bit i of `repeated`: input i is a
/// single element, taken for all.
using MapKernel = void (*)(int64_t n, const std::byte* const* inputs, unsigned repeated,
                           std::byte* out);

/// The sets of repeated inputs that kernels of each arity know: parameters and one side of a
/// binary operation. Others are spread out into blocks.
constexpr bool kernel_repeats(size_t arity, unsigned repeated) {
  if (repeated == 0) return true;
  if (arity == 2) return repeated == 0b01 || repeated == 0b10;
  if (arity == 3) return repeated == 0b010 || repeated == 0b100 || repeated == 0b110;
  return arity == 4 && repeated == 0b1000;
}

/// The kernel of MapList position `index` for a compute dtype (float32, float64, int64, int32,
/// uint8); null where the functor does not compute in that type. One table a type, one file a
/// table.
MapKernel map_kernel(uint16_t index, DType compute);

/// The functor writes bool.
bool map_is_predicate(uint16_t index);

template <class T>
MapKernel map_kernel_of(uint16_t index);

}  // namespace hero::core::cpu
