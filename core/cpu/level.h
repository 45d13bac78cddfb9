#pragma once
// Which kernels a program runs: they are compiled for several levels of x86-64 and chosen at their
// first use by what the processor has. Other processors have one level.
#include <cstdint>

namespace hero::core::cpu {

/// Each has all that the one before has.
enum class Level : uint8_t {
  v3,       ///< "v3": AVX2; "neon" on 64-bit ARM; or whatever else the library was built for
  v4,       ///< "v4": AVX-512
  v4_bf16,  ///< "v4-bf16": AVX-512 with products of bfloat16
};

/// The highest that this processor has.
Level machine_level();

/// The one of this name. Error where there is none, or none up to `most`.
Level level_named(const char* name, Level most);

/// The one that HERO_CPU names, else machine_level(); found once.
Level level();

const char* name_of(Level level);

}  // namespace hero::core::cpu
