// Exact sums on the device: the words themselves are the CPU's.
#include <algorithm>
#include <limits>

#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/core/functions/exact_sum.h>

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

TEST_CASE("exact sums of millions of numbers on the GPU have the CPU's words", "[model]") {
  HERO_NEEDS_GPU();
#ifdef HERO_TEST_CUSIM
  const int64_t n = 9001;
#else
  const int64_t n = 9'000'001;  // blocks take several shares
#endif
  for (const DType dtype : {kBFloat16, kFloat32}) check_words(noise({n}, dtype));
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
    backend(kCpu).run(call::Fill{x.select(0, 17), infinity});
    check_words(x);
    backend(kCpu).run(call::Fill{x.select(0, 3), std::nan("")});
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

TEST_CASE("exact sums of more arrays than a launch takes are those of the arrays one by one") {
  HERO_NEEDS_GPU();
  constexpr DType kFloats[] = {kFloat32, kBFloat16, kFloat64, kFloat16};
  std::vector<Array> here, there;
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t n = i % 9 == 4 ? 0 : i == 33 ? 9001 : i * 11 % 61;
    const Array x = noise({n + 1}, kFloats[i < 330 ? 0 : i % 4], static_cast<uint64_t>(i));
    here.push_back(i % 3 == 0 ? x.slice(0, 1) : x.slice(0, 0, n));  // off its vector
    there.push_back(x.to(kGpu));
    there.back() = i % 3 == 0 ? there.back().slice(0, 1) : there.back().slice(0, 0, n);
  }
  for (const bool squares : {true, false}) {
    ExactSum a, b;
    squares ? a.add_squares(here) : a.add_magnitudes(here);
    squares ? b.add_squares(there) : b.add_magnitudes(there);
    const auto expected = a.words(), found = b.words();
    CHECK(std::equal(found.begin(), found.end(), expected.begin()));
  }
}

TEST_CASE("the GPU sums the squares of each of many arrays, also where a block sees several") {
  HERO_NEEDS_GPU();
  constexpr DType kFloats[] = {kFloat32, kBFloat16, kFloat64, kFloat16};
  std::vector<Array> here, there;
  for (int64_t i = 0; i < 400; ++i) {
    // More shares than blocks, so that blocks pass from one array to the next.
    const int64_t n = i % 9 == 4 ? 0 : i == 33 ? 70001 : i % 5 == 0 ? 9001 : i * 11 % 61;
    here.push_back(noise({n}, kFloats[i < 330 ? 0 : i % 4], static_cast<uint64_t>(i)));
    there.push_back(here.back().to(kGpu));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [at, value] : {std::pair{size_t{35}, infinity}, {size_t{36}, std::nan("")}}) {
    backend(kCpu).run(call::Fill{here[at].slice(0, 0, 1), value});
    backend(kGpu).run(call::Fill{there[at].slice(0, 0, 1), value});
  }
  const Array expected = roots_of_words(words_of_squares(here));
  const Array found = roots_of_words(words_of_squares(there));
  CHECK(found.device() == kGpu);
  CHECK(same_bits(found, expected));
}

TEST_CASE("words that lie on the GPU are added to a sum there") {
  HERO_NEEDS_GPU();
  const Array a = noise({700}, kFloat32, 1), b = noise({90}, kBFloat16, 2);
  ExactSum here, first, second, both, none;
  for (const Array& x : {a, b}) here.add_squares(x);
  first.add_squares(a.to(kGpu));
  second.add_squares(b);
  both.add_words(first.words_on(kGpu));
  both.add_words(second.words_on(kGpu));  // those of the host go there
  both.add_words(none.words_on(kGpu));
  CHECK(both.root_on(kGpu).item() == here.root());
  CHECK(both.words_on(kCpu).device() == kCpu);
  CHECK(both.finite());
}

TEST_CASE("the GPU rounds an exact sum and its root as the CPU does") {
  HERO_NEEDS_GPU();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> cases = {
      {0.0, -0.0},
      {1.0, 0x1p-26, 0x1p-27},  // half of a last place of the sum of squares, and a bit below it
      {0x1p-1074},
      {0x1p-537, 0x1p-538},  // squares at the end of the denormals
      {0x1.fffffffffffffp-512, 0x1p-540, 3e-170},
      {0x1p1023, 0x1p1023},  // their magnitudes' sum overflows, the root of their squares does not
      {0x1.fffffffffffffp1023, 0x1p970},
      {1.0, infinity},
      {-infinity, std::nan("")},
      {0.1, 0.2, 0.3, 1e100, 1e-100},
  };
  for (const std::vector<double>& values : cases) {
    const Array x = Array::from(values, {static_cast<int64_t>(values.size())});
    for (const bool squares : {true, false}) {
      ExactSum here, there;
      squares ? here.add_squares(x) : here.add_magnitudes(x);
      squares ? there.add_squares(x.to(kGpu)) : there.add_magnitudes(x.to(kGpu));
      INFO(values[0] << " of " << values.size() << ", squares " << squares);
      const Array value = there.value_on(kGpu), root = there.root_on(kGpu);
      CHECK(value.device() == kGpu);
      CHECK(bits_of(value.item()) == bits_of(here.value()));
      CHECK(bits_of(root.item()) == bits_of(here.root()));
      // What is known on the host only goes there as a number.
      CHECK(bits_of(here.root_on(kGpu).item()) == bits_of(here.root()));
      CHECK(bits_of(here.value_on(kCpu).item()) == bits_of(here.value()));
    }
  }
  for (int exponent = -70; exponent <= 70; ++exponent) {  // each number of leading zeros
    ExactSum here, there;
    const Array x = Array::from(std::vector<double>{std::ldexp(1.375, exponent), 0x1p-90}, {2});
    here.add_magnitudes(x);
    there.add_magnitudes(x.to(kGpu));
    CHECK(there.value_on(kGpu).item() == here.value());
    CHECK(there.root_on(kGpu).item() == here.root());
  }
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Array x = noise({33}, kFloat32, seed);
    ExactSum here, there;
    here.add_squares(x);
    there.add_squares(x.to(kGpu));
    CHECK(there.root_on(kGpu).item() == here.root());
    CHECK(there.value_on(kGpu).item() == here.value());
  }
}
