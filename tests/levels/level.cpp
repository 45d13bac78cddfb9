// Which kernels programs run on this processor, or by HERO_CPU, and which it has: the first line of
// tests/run.
#include <cstdio>

#include <hero/core/cpu/level.h>
#include <hero/core/error.h>

int main() try {
  using namespace hero::core::cpu;
  std::printf("kernels of level %s; this machine has", name_of(level()));
  for (const Level each : kLevels) {
    if (each <= machine_level()) std::printf(" %s", name_of(each));
  }
  std::printf("\n");
  return 0;
} catch (const hero::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
