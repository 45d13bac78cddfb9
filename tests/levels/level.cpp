// Which kernels programs run on this processor, or by HERO_CPU: the first line of tests/run.
#include <cstdio>

#include <hero/core/cpu/level.h>
#include <hero/core/error.h>

int main() try {
  std::printf("kernels of level %s\n", hero::core::cpu::name_of(hero::core::cpu::level()));
  return 0;
} catch (const hero::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
