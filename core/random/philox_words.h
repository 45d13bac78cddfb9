#pragma once
// What all random numbers are made of.
#include <cstdint>

#include <hero/core/random.h>

namespace hero::core {

/// philox_words() writes whole groups of so many blocks.
inline constexpr int kPhiloxGroup = 8;

/// The four words of each of `blocks` consecutive Philox blocks, one block behind the other; there
/// is room for whole groups.
void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words);

}  // namespace hero::core
