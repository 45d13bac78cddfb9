#pragma once
// What all random numbers are made of, for each level.
#include <hero/core/random/philox_words.h>

namespace hero::core::cpu {

/// core::philox_words() of a level.
void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words);

}  // namespace hero::core::cpu
