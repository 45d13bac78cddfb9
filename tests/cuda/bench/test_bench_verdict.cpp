// When a row of the benchmark fails though it has a time.
#include <limits>
#include <string>

#include "cuda/bench/bench_verdict.h"
#include "support/catch.h"

using hero_bench::Course;
using hero_bench::wrong_numbers;

TEST_CASE("a benchmark's row fails where its numbers cannot be right") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto word = [](Course course, double first, double last, double cpu) {
    const char* wrong = wrong_numbers(course, first, last, cpu);
    return std::string(wrong ? wrong : "");
  };
  CHECK(word(Course::falls, 10.98, 7.5, 10.982).empty());
  CHECK(word(Course::falls, 10.98, 7.5, kNaN).empty());
  CHECK(word(Course::same, 2.0, 2.0, 2.001).empty());
  CHECK(word(Course::falls, kNaN, 7.5, 10.98) == "a number is not finite");
  CHECK(word(Course::falls, 10.98, kInfinity, 10.98) == "a number is not finite");
  CHECK(word(Course::same, kNaN, kNaN, kNaN) == "a number is not finite");
  CHECK(word(Course::falls, 10.7, 7.5, 10.98) == "the first is not the CPU's");
  CHECK(word(Course::same, 0.0, 0.0, 1e-6) == "the first is not the CPU's");
  CHECK(word(Course::falls, 10.98, 10.98, 10.98) == "a loss does not fall");
  CHECK(word(Course::same, 2.0, 2.1, 2.0) == "two calls are not the same");
}
