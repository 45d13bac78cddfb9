#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.h"

#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using core::ExactSum;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Binary addition as one does it on paper: a bit a cell, the first of weight 2^-2200.
class OnPaper {
 public:
  void add(double x) { add_at(x, 0); }
  // x * x as the sum of x * 2^i over the set bits of x
  void add_square(double x) {
    int exponent = 0;
    const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
    for (int i = 0; i < 53; ++i) {
      if (mantissa >> i & 1) add_at(x, exponent - 53 + i);
    }
  }
  // Rounded to 53 bits, to nearest even, and then divided by 2^exponent.
  double value(int exponent = 0) const {
    const auto top = std::find(bits_.rbegin(), bits_.rend(), true);
    if (top == bits_.rend()) return 0.0;
    const int high = static_cast<int>(bits_.rend() - top) - 1;
    int64_t mantissa = 0;
    for (int i = high; i > high - 53; --i) mantissa = 2 * mantissa + (i >= 0 && bit(i) ? 1 : 0);
    const bool half = high >= 53 && bit(high - 53);
    bool more = false;
    for (int i = 0; i < high - 53; ++i) more = more || bit(i);
    if (half && (more || mantissa % 2 == 1)) ++mantissa;
    return std::ldexp(static_cast<double>(mantissa), high - 52 - 2200 - exponent);
  }

 private:
  bool bit(int i) const { return bits_[static_cast<size_t>(i)]; }
  void add_at(double x, int shift) {
    int exponent = 0;
    const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
    for (int i = 0; i < 53; ++i) {
      if ((mantissa >> i & 1) == 0) continue;
      // A bit below the first cell cannot be set: squares end at 2^-2148.
      auto at = static_cast<size_t>(exponent - 53 + i + shift + 2200);
      while (bits_[at]) bits_[at++] = false;
      bits_[at] = true;
    }
  }
  std::vector<bool> bits_ = std::vector<bool>(4500);
};

// Numbers of both signs whose exponents lie anywhere between two bounds.
std::vector<double> numbers(size_t n, int lowest, int highest, uint32_t seed) {
  std::mt19937 random(seed);  // the standard fixes its numbers, not those of its distributions
  std::vector<double> list;
  for (size_t i = 0; i < n; ++i) {
    const double mantissa = 1.0 + static_cast<double>(random()) * 0x1p-32;
    const double more = static_cast<double>(random()) * 0x1p-56;
    const int exponent =
        lowest + static_cast<int>(random() % static_cast<uint32_t>(highest - lowest + 1));
    list.push_back(std::ldexp(random() % 2 ? mantissa + more : -(mantissa + more), exponent));
  }
  return list;
}

Array array_of(const std::vector<double>& values, DType dtype) {
  return Array::from(values, {static_cast<int64_t>(values.size())}).to(dtype);
}

std::vector<int64_t> words_of(ExactSum sum) {
  const auto words = sum.words();
  return {words.begin(), words.end()};
}

ExactSum squares(const Array& x) {
  ExactSum sum;
  sum.add_squares(x);
  return sum;
}

// Numbers whose largest is about 2^highest.
void check_against_paper(const Array& x, int highest) {
  OnPaper square, magnitude;
  for (const double value : x.to_vector<double>()) {
    square.add_square(value);
    magnitude.add(value);
  }
  ExactSum sum;
  sum.add_magnitudes(x);
  CHECK(sum.value() == magnitude.value());
  CHECK(squares(x).value() == square.value());
  // The root of the sum rounded to 53 bits, whose exponent is kept small meanwhile.
  CHECK(squares(x).root() == std::ldexp(std::sqrt(square.value(2 * highest)), highest));
}

}  // namespace

TEST_CASE("exact sums are what addition on paper gives, rounded once") {
  struct Case {
    DType dtype;
    int lowest, highest;
  };
  // near one another, far apart, subnormal, and float64 whose squares no float64 holds
  const Case cases[] = {{kFloat32, -3, 3},        {kFloat32, -30, 0},   {kFloat32, -126, 126},
                        {kFloat32, -160, -120},   {kFloat16, -24, 14},  {kBFloat16, -133, 126},
                        {kBFloat16, -8, 0},       {kFloat64, -20, 20},  {kFloat64, -500, -300},
                        {kFloat64, -1074, -1050}, {kFloat64, 600, 1000}};
  for (const Case& c : cases) {
    for (const size_t n : {1, 7, 512, 1300}) {
      INFO(name(c.dtype) << " " << c.lowest << " " << c.highest << " " << n);
      check_against_paper(array_of(numbers(n, c.lowest, c.highest, 1), c.dtype), c.highest);
    }
  }
}

TEST_CASE("squares of numbers of all bits are exact however far their exponents lie apart") {
  for (const int top : {-100, 0, 120}) {
    for (const int apart : {0, 12, 22, 23, 24, 25, 40}) {
      for (const size_t each : {2, 8, 511}) {  // so many large numbers for a small one
        INFO(top << " " << apart << " " << each);
        std::vector<double> values(512, std::ldexp(0x1.fffffep0, top));
        for (size_t i = 0; i < values.size(); i += each) {
          values[i] = std::ldexp(-0x1.fffffep0, std::max(top - apart, -126));
        }
        const Array x = array_of(values, kFloat32);
        check_against_paper(x, top);
        CHECK(words_of(squares(x)) == words_of(squares(x.to(kFloat64))));  // one by one
      }
    }
  }
}

TEST_CASE("a sum of halves of a last place is rounded to even, and one bit far below decides") {
  const auto sum_of = [](const std::vector<double>& terms) {
    ExactSum sum;
    for (const double x : terms) sum.add(x);
    return sum.value();
  };
  CHECK(sum_of({}) == 0.0);
  CHECK(sum_of({1.0, 0x1p-53}) == 1.0);
  CHECK(sum_of({1.0, 0x1p-52, 0x1p-53}) == 1.0 + 0x1p-51);
  CHECK(sum_of({1.0, 0x1p-53, 0x1p-1074}) == 1.0 + 0x1p-52);
  CHECK(sum_of({0x1p-1074, 0x1p-1074}) == 0x1p-1073);
  CHECK(sum_of({0x1.fffffffffffffp1023, 0x1p970}) == kInfinity);
  CHECK(sum_of({0x1.fffffffffffffp1023, 0x1p969}) == 0x1.fffffffffffffp1023);
}

TEST_CASE("exact sums do not depend on the order, the cut or the number of threads", "[threads]") {
  constexpr size_t kCount = 100'003;
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
    INFO(name(dtype));
    std::vector<double> values = numbers(kCount, -20, 10, 2);
    const Array whole = array_of(values, dtype);
    const auto expected = words_of(squares(whole));
    for (const int threads : {1, 2, 5}) {
      const ThreadLimit limit(threads);
      CHECK(words_of(squares(whole)) == expected);
    }
    std::shuffle(values.begin(), values.end(), std::mt19937(3));
    CHECK(words_of(squares(array_of(values, dtype))) == expected);
    CHECK(words_of(squares(whole.slice(0, 0, 100'000).reshape({250, 400}).t())) ==
          words_of(squares(whole.slice(0, 0, 100'000))));
    for (int64_t parts = 1; parts <= 8; ++parts) {
      // merged as sums are, and as the words of ranks are
      ExactSum sum;
      const Array words = Array::zeros({core::exact::kWords}, kInt64);
      for (int64_t i = 0; i < parts; ++i) {
        const auto n = static_cast<int64_t>(kCount);
        const Array part =
            whole.slice(0, n * i * i / (parts * parts), n * (i + 1) * (i + 1) / (parts * parts));
        sum.add(squares(part));
        core::map_into<core::kernels::Add>(words, words, squares(part).words_on(kCpu));
      }
      CHECK(words_of(sum) == expected);
      ExactSum owned;
      owned.add_words(words);
      CHECK(core::roots_of_words(words.unsqueeze(0)).item() == squares(whole).root());
      CHECK(owned.value() == squares(whole).value());
      owned.add(1.0);
      sum.add(1.0);
      CHECK(words_of(owned) == words_of(sum));
    }
  }
}

TEST_CASE("the words of squares of each array are those of sums of their own") {
  const std::vector<Array> arrays = {array_of(numbers(700, -20, 10, 5), kFloat32),
                                     array_of(numbers(3, -600, 600, 6), kFloat64),
                                     Array::empty({0}), array_of({1.0, -kInfinity}, kBFloat16)};
  const Array words = core::words_of_squares(arrays);
  CHECK(words.shape() == Shape{4, core::exact::kWords});
  const auto roots = core::roots_of_words(words).to_vector<double>();
  for (size_t i = 0; i < arrays.size(); ++i) {
    CHECK(words.select(0, static_cast<int64_t>(i)).to_vector<int64_t>() ==
          words_of(squares(arrays[i])));
    CHECK(roots[i] == squares(arrays[i]).root());
  }
  CHECK(core::roots_of_words(core::words_of_squares({})).numel() == 0);
  CHECK_THROWS_WITH(core::roots_of_words(words.slice(1, 1)), ContainsSubstring("words are"));
}

TEST_CASE("infinities and NaN outlive the adding up of words") {
  std::vector<double> values = numbers(600, -3, 3, 4);
  values[577] = -kInfinity;
  const ExactSum infinite = squares(array_of(values, kFloat32));
  values[3] = std::nan("");
  for (const DType dtype : {kFloat32, kFloat16, kFloat64}) {
    ExactSum sum = squares(array_of(values, dtype));
    CHECK(std::isnan(sum.value()));
    CHECK(std::isnan(sum.root()));
  }
  CHECK(infinite.value() == kInfinity);
  CHECK(infinite.root() == kInfinity);
  CHECK(!infinite.finite());
  std::vector<int64_t> words = words_of(infinite);
  for (int64_t& word : words) word *= 1000;
  ExactSum many;
  many.add_words(Array::from(words, {core::exact::kWords}));
  CHECK(many.value() == kInfinity);
  many.add(squares(array_of(values, kFloat32)));
  CHECK(std::isnan(many.value()));
}

TEST_CASE("exact sums take no negative numbers and no integers, and find nothing in empty arrays") {
  ExactSum sum;
  CHECK_THROWS_WITH(sum.add(-1.0), ContainsSubstring("exact_sum: a number is negative: -1"));
  CHECK_THROWS_WITH(sum.add_squares(Array::zeros({3}, kInt64)),
                    ContainsSubstring("exact_sum: array is int64"));
  sum.add_squares(Array::empty({0}));
  sum.add_squares(Array::empty({1000, 1000}, kFloat32, kMeta));
  CHECK(sum.value() == 0.0);
  CHECK(sum.root() == 0.0);
}
