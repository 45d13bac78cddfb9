#pragma once
// Which kernels a program runs: they are compiled for several levels of x86-64, or of 64-bit ARM,
// and chosen at their first use by what the processor has. Other processors have one level.
#include <cstdint>

namespace hero::core::cpu {

/// Each has all that the one before has.
enum class Level : uint8_t {
  v3,       ///< "v3": AVX2; "neon" on 64-bit ARM; or whatever else the library was built for
  v4,       ///< "v4": AVX-512
  v4_bf16,  ///< "v4-bf16": AVX-512 with products of bfloat16; "neon-bf16" on 64-bit ARM: BFMMLA
  amx,      ///< "amx": products of bfloat16 by tiles, where the system lets the program have them
};

/// All that processors of this kind may have, the lowest first.
#if defined(__aarch64__)
inline constexpr Level kLevels[] = {Level::v3, Level::v4_bf16};
#else
inline constexpr Level kLevels[] = {Level::v3, Level::v4, Level::v4_bf16, Level::amx};
#endif

/// What of a processor and its system decides. On 64-bit ARM v4 means no more than bf16. Tiles are
/// state that the system keeps for a program only if it lets it have them.
struct Features {
  bool v4 = false, bf16 = false, tiles = false, are_tiles_allowed = false;
};
Level highest_level(const Features& features);
/// Those of this machine. The first call asks the system for tiles.
const Features& machine_features();

/// The highest that this machine has.
Level machine_level();

/// The one of this name. Error where there is none, or none that is at most the highest_level().
Level level_named(const char* name, const Features& features);

/// The one that HERO_CPU names, else machine_level(); found once.
Level level();

const char* name_of(Level level);

}  // namespace hero::core::cpu
