#pragma once
#include <cstdint>

namespace hero {

/// In which order the CPU adds up the products of bfloat16 (docs/numbers.md). Either way sums are
/// float32, rounded once, and the bits are the same at any number of threads and any tiling.
enum class HalfProducts : uint8_t {
  native,    ///< in the order of the machine's instruction, where it has one; else as `portable`
  portable,  ///< in that of products of float32, which is the same on every machine
};

/// For the whole process, from the next product on; products under way on other threads may take
/// either. Starts as native. A backward pass and the run that a checkpoint repeats should find what
/// their forward found.
void set_half_products(HalfProducts order);
HalfProducts half_products();

/// True where the CPU multiplies bfloat16 by an instruction of its own: half_products() is native,
/// and the machine has it (or HERO_CPU does).
bool native_half_products();

}  // namespace hero
