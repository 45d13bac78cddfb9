#include <cstdlib>
#include <string>

#include <hero/core/cpu/kernels.h>
#include <hero/core/cpu/level.h>
#include <hero/core/error.h>

namespace hero::core::cpu {

const Kernels& kernels_v3();  // kernels.cpp, compiled once for each
const Kernels& kernels_v4();

namespace {

constexpr Level kLevels[] = {Level::v3, Level::v4, Level::v4_bf16};

Level chosen_level() {
#if defined(HERO_CPU_LEVELS)
  check(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
        "cpu: this processor has no AVX2, which the library was built for; build it there with "
        "-DHERO_ARCH=native");
#endif
  const char* const text = std::getenv("HERO_CPU");
  return text == nullptr || *text == '\0' ? machine_level() : level_named(text, machine_level());
}

}  // namespace

Level machine_level() {
#if defined(__x86_64__)
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return __builtin_cpu_supports("avx512bf16") ? Level::v4_bf16 : Level::v4;
#endif
  return Level::v3;
}

Level level_named(const char* name, Level most) {
  std::string names;
  for (const Level each : kLevels) {
    if (each > most) break;
    if (std::string(name) == name_of(each)) return each;
    names += (names.empty() ? "" : ", ") + std::string(name_of(each));
  }
  fail("cpu: HERO_CPU is '", name, "', and this processor has ", names, "; name one of them");
}

Level level() {
  static const Level chosen = chosen_level();
  return chosen;
}

const Kernels& kernels_of([[maybe_unused]] Level level) {
#if defined(HERO_CPU_LEVELS)
  if (level >= Level::v4) return kernels_v4();
#endif
  return kernels_v3();
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
      return "v4-bf16";
  }
  return "";
}

}  // namespace hero::core::cpu
