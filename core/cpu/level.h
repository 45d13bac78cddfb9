#pragma once
// The level of instruction sets whose kernels a program runs: kernels are compiled for several
// levels of x86-64, or of 64-bit ARM, and the level is chosen at the first use by what the
// processor has. Other processors have one level.
#include <cstdint>

namespace hero::core::cpu {

/// Levels of instruction sets; each includes the one before.
enum class Level : uint8_t {
  v3,       ///< "v3": AVX2; "neon" on 64-bit ARM; or whatever else the library was built for
  v4,       ///< "v4": AVX-512
  v4_bf16,  ///< "v4-bf16": AVX-512 with products of bfloat16; "neon-bf16" on 64-bit ARM: BFMMLA
  amx,      ///< "amx": products of bfloat16 by tiles, where the system lets the program have them
};

/// All levels of this kind of processor, the lowest first.
#if defined(__aarch64__)
inline constexpr Level kLevels[] = {Level::v3, Level::v4_bf16};
#else
inline constexpr Level kLevels[] = {Level::v3, Level::v4, Level::v4_bf16, Level::amx};
#endif

/// The features of the processor and the operating system that decide the level. On 64-bit ARM, v4
/// only serves bf16. AMX tiles are registers whose use the system has to permit, since it must save
/// them for the program.
struct Features {
  bool v4 = false, bf16 = false, tiles = false, are_tiles_allowed = false, is_intel = false;
  bool linked = true;  ///< false: the program has kernels of the lowest level alone
};
Level highest_level(const Features& features);
/// The level where HERO_CPU names none: the highest, but v4 in place of v4_bf16 on Intel's
/// processors, whose vdpbf16ps makes half as many multiply-adds a second as their float32
/// instructions.
Level default_level(const Features& features);
/// The features of this machine. The first call requests permission for tiles from the system.
const Features& machine_features();

/// The highest level that this machine has.
Level machine_level();

/// The level of this name. Throws an Error if there is none, or if it is above highest_level().
Level level_named(const char* name, const Features& features);

/// The level that HERO_CPU names, else the default_level() of this machine; determined once.
Level level();

const char* name_of(Level level);

}  // namespace hero::core::cpu
