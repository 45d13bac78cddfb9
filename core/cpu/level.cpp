#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <string>

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/level.h>
#include <hero/core/error.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/random/philox_words.h>

namespace hero::core::cpu {

// kernels.cpp, compiled once for each: libraries of their own, which a program may be linked
// without (cmake/HeroKernels.cmake, cmake/HeroLevels.cmake).
[[gnu::weak]] const Kernels& kernels_v3();
#if defined(HERO_CPU_LEVELS)
[[gnu::weak]] const Kernels& kernels_v4();
#endif

namespace {

// Whether this program has the kernels of the levels above the lowest; of a library that was built
// for one kind of processor all levels have the same.
bool has_levels() {
#if defined(HERO_CPU_LEVELS)
  return &kernels_v4 != nullptr;
#else
  return true;
#endif
}

Features find_features() {
  Features found;
  found.linked = has_levels();
  if (!found.linked) return found;
#if defined(__x86_64__)
  found.v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  found.bf16 = __builtin_cpu_supports("avx512bf16");
  found.is_intel = __builtin_cpu_is("intel");
  // compilers differ in their names for these
  constexpr unsigned kHalvesInTiles = 1u << 22, kTileUnit = 1u << 24,
                     kBoth = kHalvesInTiles | kTileUnit;
  unsigned a = 0, b = 0, c = 0, d = 0;
  found.tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBoth) == kBoth;
#if defined(__linux__)
  // A system that does not know these tiles refuses them.
  constexpr long kAskForState = 0x1023, kTiles = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  found.are_tiles_allowed = found.tiles && syscall(SYS_arch_prctl, kAskForState, kTiles) == 0;
#endif
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kHalfProducts = 1ul << 14;  // HWCAP2_BF16
  found.v4 = found.bf16 = (getauxval(AT_HWCAP2) & kHalfProducts) != 0;
#endif
  return found;
}

Level chosen_level() {
#if defined(HERO_CPU_LEVELS)
  check(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
        "cpu: this processor has no AVX2, which the library was built for; build it there with "
        "-DHERO_ARCH=native");
#endif
  const char* const text = std::getenv("HERO_CPU");
  const Features& features = machine_features();
  return text == nullptr || *text == '\0' ? default_level(features) : level_named(text, features);
}

}  // namespace

Level highest_level(const Features& features) {
  if (!features.v4) return Level::v3;
  if (!features.bf16) return Level::v4;
  return features.tiles && features.are_tiles_allowed ? Level::amx : Level::v4_bf16;
}

Level default_level(const Features& features) {
  const Level most = highest_level(features);
  return most == Level::v4_bf16 && features.is_intel ? Level::v4 : most;
}

const Features& machine_features() {
  static const Features found = find_features();
  return found;
}

Level machine_level() { return highest_level(machine_features()); }

Level level_named(const char* name, const Features& features) {
  const Level most = highest_level(features);
  std::string names;
  for (const Level each : kLevels) {
    if (each > most) break;
    if (std::string(name) == name_of(each)) return each;
    names += (names.empty() ? "" : ", ") + std::string(name_of(each));
  }
  const char* const who = features.linked ? "this processor has " : "this program is linked with ";
  const char* const refused = features.tiles && !features.are_tiles_allowed
                                  ? " (and amx, but the system lets this program have no tiles)"
                                  : "";
  fail("cpu: HERO_CPU is '", name, "', and ", who, names, refused, "; name one of them");
}

Level level() {
  static const Level chosen = chosen_level();
  return chosen;
}

const Kernels& kernels_of([[maybe_unused]] Level level) {
#if defined(HERO_CPU_LEVELS)
  if (level >= Level::v4) return kernels_v4();
#endif
  return &kernels_v3 == nullptr ? basic_kernels() : kernels_v3();
}

const Kernels& kernels() {
  static const Kernels& chosen = kernels_of(level());
  return chosen;
}

const char* name_of(Level level) {
  switch (level) {
    case Level::v3:
#if defined(__aarch64__)
      return "neon";
#else
      return "v3";
#endif
    case Level::v4:
      return "v4";
    case Level::v4_bf16:
#if defined(__aarch64__)
      return "neon-bf16";
#else
      return "v4-bf16";
#endif
    case Level::amx:
      return "amx";
  }
  return "";
}

}  // namespace hero::core::cpu

// What the rest of core declares and the chosen level has.
namespace hero {

bool native_half_products() {
  using core::cpu::Level;
  return half_products() == HalfProducts::native && core::cpu::level() >= Level::v4_bf16;
}

namespace core {

Backend& cpu_backend() {
  static Backend& chosen = cpu::kernels().backend;
  return chosen;
}

void philox_words(RandomStream stream, uint64_t first_block, int blocks, uint32_t* words) {
  cpu::kernels().philox_words(stream, first_block, blocks, words);
}

}  // namespace core

}  // namespace hero
