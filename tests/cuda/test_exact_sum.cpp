// Exact sums on the device: the words themselves are the CPU's.
#include <limits>

#include "cuda/gpu.h"
#include "support/arrays.h"

#include <hero/core/exact_sum.h>

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using namespace hero_test;

namespace {

std::vector<int64_t> words_of(const Array& x, bool squares) {
  ExactSum sum;
  squares ? sum.add_squares(x) : sum.add_magnitudes(x);
  const auto words = sum.words();
  return {words.begin(), words.end()};
}

void check_words(const Array& x) {
  for (const bool squares : {true, false}) {
    INFO(name(x.dtype()) << " " << to_string(x.shape()) << ", squares " << squares);
    CHECK(words_of(x.to(kGpu), squares) == words_of(x, squares));
  }
}

}  // namespace

TEST_CASE("exact sums on the GPU have the CPU's words") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    for (const int64_t n : {0, 1, 31, 512, 513, 4100}) check_words(noise({n}, dtype));
    check_words(Array::zeros({600}, dtype));
  }
}

TEST_CASE("exact sums on the GPU lose nothing of numbers far apart") {
  HERO_NEEDS_GPU();
  // Exponents over all of the dtype's range in one tile: most bits lie below the common grids.
  const auto spread = [](int64_t i, int64_t from, int64_t count) {
    return std::ldexp(1.0 + 0x1p-20 * static_cast<double>(i % 1000 + 1),
                      static_cast<int>(from + i * 7 % count));
  };
  check_words(make(
      {1000}, [&](int64_t i) { return spread(i, -149, 276); }, kFloat32));
  check_words(make(
      {1000}, [&](int64_t i) { return spread(i, -24, 39); }, kFloat16));
  check_words(make(
      {700}, [&](int64_t i) { return -spread(i, -1074, 2097); }, kFloat64));
}

TEST_CASE("exact sums on the GPU remember what is not finite, and add up over arrays") {
  HERO_NEEDS_GPU();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    Array x = noise({40}, dtype);
    backend(kCpu).fill(x.select(0, 17), infinity);
    check_words(x);
    backend(kCpu).fill(x.select(0, 3), std::nan(""));
    check_words(x);
  }
  const Array a = noise({700}, kFloat32, 1), b = noise({90}, kBFloat16, 2);
  ExactSum here, there, copied;
  for (const Array& x : {a, b}) {
    here.add_squares(x);
    there.add_squares(x.to(kGpu));
  }
  there.add(0.5);
  here.add(0.5);
  CHECK(there.root() == here.root());
  copied.add(there);
  CHECK(copied.value() == here.value());
  // A view whose first element is not aligned, and one with gaps.
  ExactSum view, dense;
  view.add_squares(a.to(kGpu).slice(0, 1));
  view.add_squares(a.to(kGpu).slice(0, 0, kEnd, 3));
  dense.add_squares(a.slice(0, 1).clone());
  dense.add_squares(a.slice(0, 0, kEnd, 3).clone());
  CHECK(view.value() == dense.value());
}
