// Products of bfloat16 by the machine's instruction, bit for bit beside their definition in
// scalars.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "core/products/half_matrix.h"
#include "core/products/native_half_sum.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core::cpu;
using namespace hero_test;

float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

float native_sum(int64_t i, int64_t j, int64_t k, const HalfMatrix& a, const HalfMatrix& b) {
  return native_half_sum(
      k, [&](int64_t p) { return a.at(i, p); }, [&](int64_t p) { return b.at(p, j); });
}

// Every bit pattern: subnormal numbers, infinities and NaNs among them.
auto any_bits(std::mt19937& random) {
  return [&random] {
    BFloat16 x;
    x.bits = static_cast<uint16_t>(random());
    return x;
  };
}
// Products around the least normal float32, 2^-126, and below it.
auto tiny(std::mt19937& random) {
  return [&random] {
    BFloat16 x;
    x.bits = static_cast<uint16_t>((random() & 0x807Fu) | ((60 + random() % 8) << 7));
    return x;
  };
}
// Products around the largest.
auto huge(std::mt19937& random) {
  return [&random] {
    BFloat16 x;
    x.bits = static_cast<uint16_t>((random() & 0x807Fu) | ((186 + random() % 6) << 7));
    return x;
  };
}

std::vector<float> product(int64_t m, int64_t n, int64_t k, const HalfMatrix& a,
                           const HalfMatrix& b) {
  std::vector<float> c(static_cast<size_t>(m * (n + 2)), -7.0f);  // wider: gaps must stay
  kernels().gemm_bf16(m, n, k, view(a), view(b), c.data(), n + 2, false);
  return c;
}

void compare(int64_t m, int64_t n, int64_t k, const HalfMatrix& a, const HalfMatrix& b) {
  const std::vector<float> c = product(m, n, k, a, b);
  int64_t different = 0, touched = 0;
  for (int64_t i = 0; i < m; ++i) {
    const float* const row = c.data() + i * (n + 2);
    for (int64_t j = 0; j < n; ++j) {
      const float expected = native_sum(i, j, k, a, b);
      const bool same =
          std::isnan(expected) ? std::isnan(row[j]) : bits_of(expected) == bits_of(row[j]);
      different += !same;
    }
    touched += (row[n] != -7.0f) + (row[n + 1] != -7.0f);
  }
  CAPTURE(m, n, k, a.rs, a.cs, b.rs, b.cs);
  REQUIRE(different == 0);
  REQUIRE(touched == 0);
}

struct Sizes {
  int64_t m, n, k;
};
const std::vector<Sizes> kSizes = {
    {1, 1, 1},     {2, 3, 4},     {16, 7, 5},    {5, 16, 17},   {14, 32, 8},    {15, 33, 31},
    {13, 31, 64},  {29, 65, 512}, {30, 17, 513}, {64, 10, 300}, {10, 64, 1030}, {1, 90, 70},
    {90, 1, 70},   {1, 70, 1030}, {3, 40, 95},   {1, 1, 2600},  {33, 2, 2049},  {61, 100, 1},
    {4, 100, 700}, {8, 33, 513},  {7, 47, 95}};

bool has_instruction() {
  if (native_half_products()) return true;
  SUCCEED("skipped: this processor has no products of bfloat16, or HERO_CPU leaves them out");
  return false;
}

TEST_CASE("a native product of bfloat16 has the bits of its definition, on odd shapes and layouts",
          "[core][gemm][half]") {
  if (!has_instruction()) return;
  std::mt19937 random(1);
  for (const Sizes& s : kSizes) {
    for (const Order order_a : kOrders) {
      for (const Order order_b : kOrders) {
        const bool is_slow = kIsSanitized || is_emulated();
        if (is_slow && s.m * s.n * s.k > 100000 && order_a != order_b) continue;
        const auto a = make(s.m, s.k, order_a, uniform(random));
        const auto b = make(s.k, s.n, order_b, uniform(random));
        compare(s.m, s.n, s.k, a, b);
      }
    }
  }
}

TEST_CASE("a native product of bfloat16 has the bits of its definition for extreme values",
          "[core][gemm][half]") {
  if (!has_instruction()) return;
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    const int64_t k = 1 + static_cast<int64_t>(random() % 40);
    const auto check = [&](auto&& draw) {
      compare(28, 64, k, make(28, k, Order::rows, draw), make(k, 64, Order::columns, draw));
    };
    check(any_bits(random));
    check(tiny(random));
    check(huge(random));
  }
  const HalfOrder order = half_order();
  if (order == HalfOrder::tile) return;  // which adds the two products apart
  // 2^-126 less 2^-150 is below the normal numbers; less 2^-151 it rounds to 2^-126 and is not.
  const BFloat16 one(1.0f), least(as_float(0x00800000)), p(0x1p-75f), q(-0x1p-75f), r(-0x1p-76f);
  const auto two = [](BFloat16 x, BFloat16 y) { return HalfMatrix{{x, y}, 2, 1, 0}; };
  const auto column = [](BFloat16 x, BFloat16 y) { return HalfMatrix{{x, y}, 1, 1, 0}; };
  // On ARM the lesser products are zeros by themselves.
  const float below = product(1, 1, 2, two(p, one), column(q, least))[0];
  REQUIRE(below == (order == HalfOrder::arm ? 0x1p-126f : 0.0f));
  REQUIRE(product(1, 1, 2, two(p, one), column(r, least))[0] == 0x1p-126f);
  // What is cut off there leaves a one.
  const float above = product(1, 1, 2, two(one, BFloat16(0x1p-60f)), column(one, one))[0];
  REQUIRE(above == (order == HalfOrder::arm ? 1.0f + 0x1p-23f : 1.0f));
}

TEST_CASE("a native product has the same bits for any number of threads and any parts",
          "[core][gemm][half][threads]") {
  if (!has_instruction()) return;
  std::mt19937 random(3);
  std::vector<Sizes> sizes = {{301, 203, 407}, {64, 512, 784},    {1500, 40, 600},
                              {1, 3000, 900},  {200, 1100, 2500}, {700, 300, 90}};
  if (is_emulated()) sizes = {{301, 70, 107}, {1, 1500, 300}, {40, 70, 2500}};
  for (const Sizes& s : sizes) {
    for (const Order order : {Order::rows, Order::columns}) {
      const auto a = make(s.m, s.k, order, uniform(random));
      const auto b = make(s.k, s.n, order, uniform(random));
      std::vector<float> expected;
      for (const int threads : {1, 2, 3, 7}) {
        const ThreadLimit limit(threads);
        const std::vector<float> c = product(s.m, s.n, s.k, a, b);
        if (expected.empty()) expected = c;
        CAPTURE(s.m, s.n, s.k, threads);
        REQUIRE(c == expected);
      }
      for (int spot = 0; spot < 50; ++spot) {
        const auto i = static_cast<int64_t>(random() % static_cast<uint64_t>(s.m));
        const auto j = static_cast<int64_t>(random() % static_cast<uint64_t>(s.n));
        REQUIRE(expected[static_cast<size_t>(i * (s.n + 2) + j)] == native_sum(i, j, s.k, a, b));
      }
    }
  }
}

TEST_CASE("a native product of no steps is zero, and one may be added", "[core][gemm][half]") {
  if (!has_instruction()) return;
  std::vector<float> c(6, 5.0f);
  kernels().gemm_bf16(2, 2, 0, {nullptr, 0, 1}, {nullptr, 2, 1}, c.data(), 3, false);
  REQUIRE(c == std::vector<float>{0, 0, 5, 0, 0, 5});
  const HalfMatrix a{{BFloat16(2.0f), BFloat16(3.0f)}, 1, 1, 0};
  const HalfMatrix b{{BFloat16(10.0f), BFloat16(20.0f)}, 2, 1, 0};
  kernels().gemm_bf16(2, 2, 1, view(a), view(b), c.data(), 3, true);
  REQUIRE(c == std::vector<float>{20, 40, 5, 30, 60, 5});
}

}  // namespace
