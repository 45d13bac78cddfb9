#pragma once
// The random words from which all random numbers are computed.
#include <cstdint>

#include <hero/core/random.h>

namespace hero::core {

/// philox_words() writes whole groups of this many blocks.
inline constexpr int kPhiloxGroup = 8;

/// Writes the four words of each of `blocks` consecutive Philox blocks, one block after the other;
/// `words` has room for whole groups.
void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words);

}  // namespace hero::core
