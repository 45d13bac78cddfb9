#include <limits>

#include "bench_cases.h"

namespace hero_bench {

// Printed by `hero_bench_gpu --cpu --case NAME ...`, to be printed anew where initial weights or
// random numbers change.
double cpu_value(const std::string& name) {
  struct Value {
    const char* name;
    double value;
  };
  constexpr Value kValues[] = {
      {"", 0.0},
  };
  for (const Value& known : kValues) {
    if (name == known.name) return known.value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace hero_bench
