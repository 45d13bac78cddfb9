#pragma once
// The random words of all random numbers, compiled for each level.
#include <hero/core/random/philox_words.h>

namespace hero::core::cpu {

/// core::philox_words() for one level.
void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words);

}  // namespace hero::core::cpu
