// Products of bfloat16 by AMX, bit for bit beside their definition in scalars: by the processor's
// tiles, or, where it has none, by its instructions done one at a time
// (core/products/trapped_tiles.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/products/half_matrix.h"
#include "core/products/native_half_sum.h"
#include "core/products/tiles.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/core/cpu/level.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/thread_pool.h>

#if defined(__x86_64__) && defined(__linux__)

namespace {

using namespace hero;
using namespace hero::core::cpu;
using namespace hero_test;

// What is handed out, each element once.
class IntoRows final : public HalfSums {
 public:
  IntoRows(int64_t rows, int64_t columns)
      : columns_(columns),
        sums_(static_cast<size_t>(rows * columns)),
        times_(static_cast<size_t>(rows * columns)) {}
  void take(int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums,
            int64_t step) const override {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>((row + i) * columns_ + column + j);
        sums_[at] = sums[i * step + j];
        ++times_[at];
      }
    }
  }
  const std::vector<float>& sums() const { return sums_; }
  bool is_whole() const {
    return std::all_of(times_.begin(), times_.end(), [](int times) { return times == 1; });
  }

 private:
  int64_t columns_;
  mutable std::vector<float> sums_;
  mutable std::vector<int> times_;
};

std::vector<float> product(int64_t m, int64_t n, int64_t k, const HalfMatrix& a,
                           const HalfMatrix& b) {
  const IntoRows to(m, n);
  gemm_bf16(bf16::amx_kernel(), m, n, k, view(a), view(b), to);
  REQUIRE(to.is_whole());
  return to.sums();
}

void compare(int64_t m, int64_t n, int64_t k, const HalfMatrix& a, const HalfMatrix& b) {
  const std::vector<float> c = product(m, n, k, a, b);
  int64_t different = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float found = c[static_cast<size_t>(i * n + j)];
      const float expected = tile_half_sum(
          k, [&](int64_t p) { return a.at(i, p); }, [&](int64_t p) { return b.at(p, j); });
      different += std::isnan(expected)
                       ? !std::isnan(found)
                       : std::bit_cast<uint32_t>(expected) != std::bit_cast<uint32_t>(found);
    }
  }
  CAPTURE(m, n, k, a.rs, a.cs, b.rs, b.cs);
  REQUIRE(different == 0);
}

// Patterns whose exponents are among `count` from `first` on.
auto exponents(std::mt19937& random, uint32_t first, uint32_t count) {
  return [&random, first, count] {
    BFloat16 x;
    x.bits = static_cast<uint16_t>((random() & 0x807Fu) | ((first + random() % count) << 7));
    return x;
  };
}

struct Sizes {
  int64_t m, n, k;
};

TEST_CASE("a product by AMX has the bits of its definition, on odd shapes and layouts",
          "[core][gemm][half]") {
  const Tiles tiles;
  if (!tiles) return;
  std::mt19937 random(1);
  for (const Sizes& s :
       {Sizes{1, 1, 1}, Sizes{2, 3, 4}, Sizes{9, 7, 5}, Sizes{16, 16, 32}, Sizes{17, 33, 31},
        Sizes{32, 32, 64}, Sizes{33, 17, 65}, Sizes{47, 65, 34}, Sizes{20, 10, 513},
        Sizes{1, 90, 70}, Sizes{90, 1, 70}, Sizes{8, 33, 95}, Sizes{61, 40, 1}}) {
    for (const Order order_a : kOrders) {
      for (const Order order_b : kOrders) {
        if (kIsSanitized && s.m * s.n * s.k > 20000 && order_a != order_b) continue;
        compare(s.m, s.n, s.k, make(s.m, s.k, order_a, uniform(random)),
                make(s.k, s.n, order_b, uniform(random)));
      }
    }
  }
  REQUIRE(tiles.were_used());
}

TEST_CASE("a product by AMX has the bits of its definition for extreme values",
          "[core][gemm][half]") {
  const Tiles tiles;
  if (!tiles) return;
  std::mt19937 random(2);
  for (int round = 0; round < 10; ++round) {
    const int64_t k = 1 + static_cast<int64_t>(random() % 70);
    const auto check = [&](auto&& draw) {
      compare(20, 35, k, make(20, k, Order::rows, draw), make(k, 35, Order::columns, draw));
    };
    check(exponents(random, 0, 256));  // all: infinities and NaNs too
    check(exponents(random, 60, 8));   // products around the least normal number, and below it
    check(exponents(random, 186, 6));  // products around the largest
  }
}

TEST_CASE("a product by AMX has the same bits for any number of threads and any parts",
          "[core][gemm][half][threads]") {
  const Tiles tiles;
  if (!tiles) return;
  std::mt19937 random(3);
  // sums that wait for a second block of k, and tall, wide and single rows
  for (const Sizes& s : {Sizes{70, 40, 2100}, Sizes{300, 70, 96}, Sizes{5, 400, 300}}) {
    for (const Order order : {Order::rows, Order::columns}) {
      const auto a = make(s.m, s.k, order, uniform(random));
      const auto b = make(s.k, s.n, order, uniform(random));
      std::vector<float> expected;
      for (const int threads : kIsSanitized ? std::vector{3} : std::vector{1, 2, 3}) {
        const ThreadLimit limit(threads);
        if (threads == 1) compare(s.m, s.n, s.k, a, b);
        const std::vector<float> c = product(s.m, s.n, s.k, a, b);
        if (expected.empty()) expected = c;
        CAPTURE(s.m, s.n, s.k, threads);
        REQUIRE(c == expected);
      }
    }
  }
}

TEST_CASE("sums by AMX may be cut between tiles, and rows beyond a matrix are not read",
          "[core][gemm][half]") {
  const Tiles tiles;
  if (!tiles) return;
  std::mt19937 random(4);
  constexpr int64_t kRows = 19, kPairs = 16 * 3 + 5;
  // Rows end where the vector does, so that the address sanitizer sees a tile that reads further.
  const HalfMatrix a = make(kRows, 2 * kPairs, Order::rows, uniform(random));
  std::vector<uint32_t> b(kPairs * bf16::kColumns);
  for (uint32_t& pair : b) {
    const uint32_t first = uniform(random)().bits;
    pair = first | static_cast<uint32_t>(uniform(random)().bits) << 16;
  }
  int64_t unit = 0;
  const auto multiply = [&](int64_t first, int64_t pairs, std::vector<float>& sums) {
    const bf16::RowPairs rows{reinterpret_cast<const std::byte*>(a.data() + 2 * first),
                              a.rs * static_cast<int64_t>(sizeof(BFloat16))};
    bf16::amx_kernel().multiply(pairs, kRows, bf16::kColumns, rows,
                                b.data() + first * bf16::kColumns, sums.data(), first > 0, unit);
  };
  std::vector<float> whole(kRows * bf16::kColumns), cut = whole;
  multiply(0, kPairs, whole);
  multiply(0, 16, cut);
  multiply(16, 32, cut);
  multiply(48, kPairs - 48, cut);
  bf16::amx_kernel().end(unit);
  REQUIRE(unit == 0);
  REQUIRE(whole == cut);
}

}  // namespace

#endif
