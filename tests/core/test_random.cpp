#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"

#include <hero/core/error.h>
#include <hero/core/kernels/philox.h>
#include <hero/core/random.h>

namespace {

using hero::Generator;
using hero::RandomStream;

template <class T>
using Fill = std::function<void(std::span<T>, RandomStream, int64_t)>;

// [first, first + n) filled at once and in pieces of uneven sizes must be the same.
template <class T>
void check_pieces(const Fill<T>& fill) {
  constexpr size_t n = 2311;
  const RandomStream stream{0x123456789abcdefu, 17};
  const auto whole = std::make_unique<T[]>(n), parts = std::make_unique<T[]>(n);
  for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{5}, (int64_t{1} << 34) + 3}) {
    fill({whole.get(), n}, stream, first);
    size_t at = 0;
    for (size_t piece = 0; at < n; ++piece) {
      const size_t sizes[] = {1, 2, 3, 0, 7, 64, 5, 255, 256, 513};
      const size_t count = std::min(sizes[piece % 10], n - at);
      fill({parts.get() + at, count}, stream, first + static_cast<int64_t>(at));
      at += count;
    }
    bool same = true;
    for (size_t i = 0; i < n; ++i) same = same && whole[i] == parts[i];
    CHECK(same);
  }
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, neighbours = 0;
};

template <class T>
Moments moments(const std::vector<T>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const T v : x) m.mean += v / n;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
    if (i > 0) m.neighbours += d * (x[i - 1] - m.mean) / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  m.neighbours /= m.variance;
  return m;
}

template <class T>
uint64_t hash_of(const std::vector<T>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const T value : values) {
    std::array<unsigned char, sizeof(T)> bytes =
        std::bit_cast<std::array<unsigned char, sizeof(T)>>(value);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

TEST_CASE("Philox4x32-10 gives Random123's known answers", "[core][random]") {
  std::ifstream file(std::string(HERO_GOLDEN_DIR "/philox.txt"));
  REQUIRE(file.good());
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream text(line);
    text >> std::hex;
    uint32_t w[10];
    for (uint32_t& word : w) text >> word;
    REQUIRE(text);
    const auto got =
        hero::philox::block(hero::philox::join(w[5], w[4]), hero::philox::join(w[3], w[2]),
                            hero::philox::join(w[1], w[0]));
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == w[6 + i]);
    ++lines;
  }
  CHECK(lines == 5);
}

TEST_CASE("fill_bits gives the words of the cipher in order", "[core][random]") {
  std::vector<uint32_t> words(1000);
  hero::fill_bits(std::span<uint32_t>(words), {7, 9}, 0);
  bool same = true;
  for (size_t i = 0; i < words.size(); ++i)
    same = same && words[i] == hero::philox::block(7, 9, i / 4).word[i % 4];
  CHECK(same);
}

TEST_CASE("random numbers do not depend on how an array is split", "[core][random]") {
  check_pieces<float>([](auto out, RandomStream s, int64_t i) { hero::fill_uniform(out, s, i); });
  check_pieces<float>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_uniform(out, s, i, -2, 3); });
  check_pieces<double>([](auto out, RandomStream s, int64_t i) { hero::fill_uniform(out, s, i); });
  check_pieces<float>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_normal(out, s, i, 1, 2); });
  check_pieces<double>([](auto out, RandomStream s, int64_t i) { hero::fill_normal(out, s, i); });
  check_pieces<float>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_exponential(out, s, i); });
  check_pieces<double>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_exponential(out, s, i); });
  check_pieces<uint32_t>([](auto out, RandomStream s, int64_t i) { hero::fill_bits(out, s, i); });
  check_pieces<uint64_t>([](auto out, RandomStream s, int64_t i) { hero::fill_bits(out, s, i); });
  check_pieces<int64_t>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_randint(out, s, i, -3, 99); });
  check_pieces<bool>(
      [](auto out, RandomStream s, int64_t i) { hero::fill_bernoulli(out, s, i, 0.3); });
}

TEST_CASE("random bits are the same on every machine", "[core][random]") {
  // Constants: another instruction set, compiler or C library must not change a bit.
  std::vector<float> f(4001);
  std::vector<double> d(4001);
  hero::fill_uniform(std::span<float>(f), {42, 3}, 5);
  CHECK(hash_of(f) == 0x15afae17b2556eedu);
  hero::fill_normal(std::span<float>(f), {42, 3}, 5);
  CHECK(hash_of(f) == 0x3539245c47dfd2ceu);
  hero::fill_uniform(std::span<double>(d), {42, 3}, 5, -1.5, 0.7);
  CHECK(hash_of(d) == 0xac2cdec1d4a2fafdu);
  hero::fill_normal(std::span<double>(d), {42, 3}, 5);
  CHECK(hash_of(d) == 0x967c9f69131ee152u);
  hero::fill_exponential(std::span<double>(d), {42, 3}, 5);
  CHECK(hash_of(d) == 0x92db6b412e8babb8u);
}

TEST_CASE("uniform numbers are uniform and inside their bounds", "[core][random]") {
  constexpr size_t n = 1 << 20;
  std::vector<float> f(n);
  std::vector<double> d(n);
  const auto examine = [&](const auto& x, double lo, double hi) {
    bool inside = true;
    std::array<int, 64> bins{};
    for (const double v : x) {
      inside = inside && v >= lo && v < hi;
      ++bins[static_cast<size_t>((v - lo) / (hi - lo) * 64)];
    }
    CHECK(inside);
    double chi2 = 0;
    for (const int count : bins) chi2 += (count - n / 64.0) * (count - n / 64.0) / (n / 64.0);
    CHECK(chi2 < 63 + 5 * std::sqrt(2 * 63.0));  // five deviations of chi^2 with 63 degrees
    CHECK(std::abs(moments(x).neighbours) < 5 / std::sqrt(double(n)));
  };
  hero::fill_uniform(std::span<float>(f), {1, 0}, 0);
  examine(f, 0, 1);
  hero::fill_uniform(std::span<float>(f), {1, 1}, 0, -3, 5);
  examine(f, -3, 5);
  hero::fill_uniform(std::span<double>(d), {1, 2}, 0);
  examine(d, 0, 1);
  // lo + (hi - lo) u rounds to hi for most u here; it must not be returned.
  hero::fill_uniform(std::span<float>(f), {1, 3}, 0, 1.0f, std::nextafter(1.0f, 2.0f));
  CHECK(std::all_of(f.begin(), f.end(), [](float v) { return v == 1.0f; }));
  hero::fill_uniform(std::span<float>(f), {1, 3}, 0, 2.5f, 2.5f);
  CHECK(std::all_of(f.begin(), f.end(), [](float v) { return v == 2.5f; }));
}

TEST_CASE("normal numbers have the moments and the tails of the normal law", "[core][random]") {
  constexpr size_t n = 1 << 20;
  const double se = 1 / std::sqrt(double(n));
  std::vector<float> f(n);
  std::vector<double> d(n);
  const auto examine = [&](const auto& x, double mean, double stddev) {
    const Moments m = moments(x);
    // Five standard errors of each sample moment.
    CHECK(std::abs(m.mean - mean) < 5 * se * stddev);
    CHECK(std::abs(m.variance / (stddev * stddev) - 1) < 5 * se * std::sqrt(2.0));
    CHECK(std::abs(m.skew) < 5 * se * std::sqrt(6.0));
    CHECK(std::abs(m.kurtosis - 3) < 5 * se * std::sqrt(24.0));
    CHECK(std::abs(m.neighbours) < 5 * se);
    for (const double z : {-2.5, -1.0, 0.0, 0.5, 3.0}) {
      const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
      const auto below =
          std::count_if(x.begin(), x.end(), [&](double v) { return v < mean + z * stddev; });
      CHECK(std::abs(double(below) / n - p) < 5 * se * std::sqrt(p * (1 - p)));
    }
  };
  hero::fill_normal(std::span<float>(f), {2, 0}, 0);
  examine(f, 0, 1);
  hero::fill_normal(std::span<float>(f), {2, 1}, 0, 10, 0.5);
  examine(f, 10, 0.5);
  hero::fill_normal(std::span<double>(d), {2, 2}, 0);
  examine(d, 0, 1);
}

TEST_CASE("the logarithm and the turn below the normal numbers are accurate", "[core][random]") {
  CHECK(hero::philox::log_of(1.0) == 0.0);
  std::vector<double> u(20000);
  hero::fill_uniform(std::span<double>(u), {3, 0}, 0);
  double worst_log = 0, worst_turn = 0;
  for (const double v : u) {
    for (const double x : {1 - v, (1 - v) * 0x1p-30, 1 - v * 0x1p-20}) {
      const long double exact = std::log(static_cast<long double>(x));
      if (exact != 0)
        worst_log = std::max(
            worst_log, static_cast<double>(std::abs((hero::philox::log_of(x) - exact) / exact)));
    }
    const long double angle = 6.283185307179586476925286766559L * v;
    const auto [s, c] = hero::philox::turn(v);
    worst_turn = std::max({worst_turn, static_cast<double>(std::abs(s - std::sin(angle))),
                           static_cast<double>(std::abs(c - std::cos(angle)))});
  }
  CHECK(worst_log < 4.5e-16);   // 2 ulp
  CHECK(worst_turn < 4.5e-16);  // 2 ulp of 1
  CHECK(hero::philox::turn(0.25).sin == 1.0);
  CHECK(hero::philox::turn(0.5).cos == -1.0);
}

TEST_CASE("randint covers its range evenly, wide and narrow", "[core][random]") {
  std::vector<int64_t> x(1 << 18);
  hero::fill_randint(x, {4, 0}, 0, -3, 7);
  std::array<int, 10> count{};
  for (const int64_t v : x) {
    REQUIRE((v >= -3 && v < 7));
    ++count[static_cast<size_t>(v + 3)];
  }
  double chi2 = 0;
  const double expected = double(x.size()) / 10;
  for (const int c : count) chi2 += (c - expected) * (c - expected) / expected;
  CHECK(chi2 < 9 + 5 * std::sqrt(18.0));  // five deviations of chi^2 with 9 degrees
  hero::fill_randint(x, {4, 1}, 0, INT64_MIN, INT64_MAX);
  const auto negative = std::count_if(x.begin(), x.end(), [](int64_t v) { return v < 0; });
  CHECK(std::abs(double(negative) - double(x.size()) / 2) < 5 * std::sqrt(double(x.size()) / 4));
  CHECK_THROWS_AS(hero::fill_randint(x, {4, 1}, 0, 5, 5), hero::Error);
}

TEST_CASE("bernoulli and exponential numbers follow their laws", "[core][random]") {
  constexpr size_t n = 1 << 18;
  const auto flags = std::make_unique<bool[]>(n);
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    hero::fill_bernoulli({flags.get(), n}, {5, 0}, 0, p);
    const auto hits = std::count(flags.get(), flags.get() + n, true);
    CHECK(std::abs(double(hits) - p * n) <= 5 * std::sqrt(p * (1 - p) * n));
  }
  CHECK_THROWS_AS(hero::fill_bernoulli({flags.get(), n}, {5, 0}, 0, 1.5), hero::Error);
  std::vector<double> x(n);
  hero::fill_exponential(std::span<double>(x), {5, 1}, 0, 2.0);
  CHECK(std::all_of(x.begin(), x.end(), [](double v) { return v >= 0 && std::isfinite(v); }));
  const Moments m = moments(x);
  CHECK(std::abs(m.mean - 0.5) < 5 * 0.5 / std::sqrt(double(n)));
  CHECK(std::abs(m.variance - 0.25) < 5 * 0.25 * std::sqrt(8.0 / n));  // kurtosis 9
}

TEST_CASE("permutations hold every index once and put each everywhere", "[core][random]") {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{129}, size_t{1000}}) {
    std::vector<int64_t> order(n), sorted(n);
    hero::fill_permutation(order, {6, n});
    std::iota(sorted.begin(), sorted.end(), 0);
    if (n > 100) CHECK(order != sorted);
    std::sort(order.begin(), order.end());
    CHECK(order == sorted);
  }
  std::array<int, 25> count{};
  constexpr int trials = 20000;
  for (int t = 0; t < trials; ++t) {
    std::vector<int64_t> order(5);
    hero::fill_permutation(order, {6, static_cast<uint64_t>(t)});
    for (size_t i = 0; i < 5; ++i) ++count[i * 5 + static_cast<size_t>(order[i])];
  }
  for (const int c : count) CHECK(std::abs(c - trials / 5.0) < 5 * std::sqrt(trials * 0.2 * 0.8));
}

TEST_CASE("a generator gives each operation its own stream and resumes from its state",
          "[core][random]") {
  Generator generator(99);
  const RandomStream first = generator.next(), second = generator.next();
  CHECK(first != second);
  const auto saved = generator.state();
  const RandomStream third = generator.next();
  Generator other(1);
  other.set_state(saved);
  CHECK(other.next() == third);
  generator.seed(99);
  CHECK(generator.next() == first);
  hero::manual_seed(99);
  CHECK(hero::default_generator().next() == first);
}

TEST_CASE("named streams depend on seed and name and stay clear of a generator's",
          "[core][random]") {
  const RandomStream a = hero::named_stream(1, "fc1.weight");
  CHECK(a == hero::named_stream(1, "fc1.weight"));
  CHECK(a != hero::named_stream(1, "fc1.bias"));
  CHECK(a != hero::named_stream(2, "fc1.weight"));
  CHECK(a.id >= uint64_t{1} << 63);
}

}  // namespace
