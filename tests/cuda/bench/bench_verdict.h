#pragma once
// When the numbers of a benchmark's row are wrong, whatever its times.
#include <cmath>

namespace hero_bench {

/// What the number of the last call must be beside that of the first.
enum class Course {
  same,   ///< each call computes the same
  falls,  ///< a loss in training
};

/// Of work in bfloat16 beside float32: one rounding.
inline constexpr double kNear = 1.0 / 256;
inline bool near(double a, double b) { return std::abs(a - b) <= kNear * std::abs(b); }

/// Null, or what is wrong with the numbers of a first and a last call; `cpu`: that of the first on
/// a CPU, NaN where it is not known.
inline const char* wrong_numbers(Course course, double first, double last, double cpu) {
  if (!std::isfinite(first) || !std::isfinite(last)) return "a number is not finite";
  if (!std::isnan(cpu) && !near(first, cpu)) return "the first is not the CPU's";
  if (course == Course::falls && last >= first) return "a loss does not fall";
  if (course == Course::same && !near(last, first)) return "two calls are not the same";
  return nullptr;
}

}  // namespace hero_bench
