#pragma once
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core::cpu {

/// A functor over `n` contiguous elements of one compute type. Bit i of `repeated`: input i is a
/// single element, taken for all.
using MapKernel = void (*)(int64_t n, const std::byte* const* inputs, unsigned repeated,
                           std::byte* out);

/// The sets of repeated inputs for which functors that often have such inputs have separate loops:
/// one side of a binary operation, and parameters. In other cases, repeated inputs are copied to
/// blocks of equal elements.
constexpr bool arity_repeats(size_t arity, unsigned repeated) {
  if (arity == 2) return repeated == 0b01 || repeated == 0b10;
  return arity == 3 && repeated == 0b110;
}
/// Whether the kernel of a MapList position for a compute dtype takes such a set.
bool kernel_repeats(uint16_t index, DType compute, unsigned repeated);

/// The kernel of MapList position `index` for a compute dtype (float32, float64, int64, int32,
/// uint8); null where the functor does not compute in that type. One table a type, one file a
/// table.
MapKernel map_kernel(uint16_t index, DType compute);

/// Whether the functor's result is bool.
bool map_is_predicate(uint16_t index);

template <class T>
MapKernel map_kernel_of(uint16_t index);

}  // namespace hero::core::cpu
