#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/products/strided_matrix.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/core/cpu/kernels.h>
#include <hero/core/thread_pool.h>

namespace {

using hero::ThreadLimit;
using hero::core::cpu::kernels;
using hero_test::Order;

constexpr Order kOrders[] = {Order::rows, Order::columns, Order::padded_rows, Order::general,
                             Order::backward};

template <class T>
using Matrix = hero_test::StridedMatrix<T>;

template <class T>
Matrix<T> make(int64_t rows, int64_t columns, Order order, std::mt19937& random) {
  std::uniform_real_distribution<T> uniform(T{-1}, T{1});
  return hero_test::make_strided(rows, columns, order, std::numeric_limits<T>::quiet_NaN(),
                                 [&] { return uniform(random); });
}

template <class T>
Matrix<T> product(int64_t m, int64_t n, int64_t k, const Matrix<T>& a, const Matrix<T>& b) {
  Matrix<T> c;
  c.rs = n + 2;  // wider than the result: what lies between the rows must stay
  c.cs = 1;
  c.values.assign(static_cast<size_t>(m * c.rs), T{-7});
  kernels().matrices<T>().gemm(m, n, k, a.data(), a.rs, a.cs, b.data(), b.rs, b.cs, c.data(), c.rs);
  return c;
}

// The promise of gemm.h, spelled out: one chain of fused multiply-adds for each block of at most
// 256 steps.
template <class T>
T chain(int64_t i, int64_t j, int64_t k, const Matrix<T>& a, const Matrix<T>& b) {
  const int64_t blocks = (k + 255) / 256;
  const int64_t even = (k + blocks - 1) / std::max<int64_t>(blocks, 1);
  const int64_t length = std::min(k, (even + 15) / 16 * 16);
  T total = 0;
  for (int64_t first = 0; first < k; first += length) {
    T sum = 0;
    for (int64_t p = first; p < std::min(k, first + length); ++p) {
#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMA)
      sum = std::fma(a.at(i, p), b.at(p, j), sum);
#else
      sum = a.at(i, p) * b.at(p, j) + sum;
#endif
    }
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

template <class T>
void compare_with_long_double(int64_t m, int64_t n, int64_t k, const Matrix<T>& a,
                              const Matrix<T>& b) {
  const Matrix<T> c = product(m, n, k, a, b);
  int64_t far = 0;
  int64_t other_bits = 0;
  int64_t touched = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      long double exact = 0;
      long double size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const long double term = static_cast<long double>(a.at(i, p)) * b.at(p, j);
        exact += term;
        size += std::abs(term);
      }
      // k roundings of partial sums, each at most half an epsilon of the sum of the magnitudes.
      const long double bound =
          static_cast<long double>(k) * std::numeric_limits<T>::epsilon() / 2 * size;
      if (!(std::abs(c.at(i, j) - exact) <= bound)) ++far;
      if (c.at(i, j) != chain(i, j, k, a, b)) ++other_bits;
    }
    for (int64_t j = n; j < c.rs; ++j) touched += c.at(i, j) != T{-7};
  }
  CAPTURE(m, n, k, a.rs, a.cs, b.rs, b.cs);
  REQUIRE(far == 0);
  REQUIRE(other_bits == 0);
  REQUIRE(touched == 0);
}

struct Shape {
  int64_t m, n, k;
};

// Around the sizes of kernels, vectors and blocks; heads, vectors, single elements.
const std::vector<Shape> kShapes = {
    {1, 1, 1},    {2, 3, 4},     {16, 7, 5},    {5, 16, 17},   {14, 32, 8},   {15, 33, 31},
    {13, 31, 64}, {29, 65, 256}, {30, 17, 257}, {64, 10, 300}, {10, 64, 33},  {70, 40, 515},
    {1, 90, 70},  {90, 1, 70},   {1, 1, 600},   {33, 2, 100},  {100, 14, 50}, {61, 100, 1},
    {6, 16, 40},  {7, 15, 270},  {130, 70, 90}};

template <class T>
uint64_t hash(const Matrix<T>& x) {
  uint64_t h = 14695981039346656037u;
  for (const T value : x.values) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    h = (h ^ bits) * 1099511628211u;
  }
  return h;
}

TEMPLATE_TEST_CASE("gemm agrees with a triple loop on odd shapes and all layouts", "[core][gemm]",
                   float, double) {
  std::mt19937 random(1);
  for (const Shape& s : kShapes) {
    for (const Order order_a : kOrders) {
      for (const Order order_b : kOrders) {
        const auto a = make<TestType>(s.m, s.k, order_a, random);
        const auto b = make<TestType>(s.k, s.n, order_b, random);
        compare_with_long_double(s.m, s.n, s.k, a, b);
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm cuts tall and wide products correctly", "[core][gemm][threads]", float,
                   double) {
  std::mt19937 random(2);
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    for (const Shape& s : {Shape{1100, 35, 40}, Shape{40, 1100, 35}, Shape{600, 130, 20}}) {
      const auto a = make<TestType>(s.m, s.k, Order::columns, random);
      const auto b = make<TestType>(s.k, s.n, Order::rows, random);
      compare_with_long_double(s.m, s.n, s.k, a, b);
    }
  }
}

TEMPLATE_TEST_CASE("gemm has the same bits for any number of threads and run",
                   "[core][gemm][threads]", float, double) {
  std::mt19937 random(3);
  for (const Shape& s : {Shape{301, 203, 407}, Shape{64, 512, 784}, Shape{512, 784, 64},
                         Shape{1000, 10, 512}, Shape{1, 3000, 900}, Shape{700, 300, 90}}) {
    for (const Order order : {Order::rows, Order::columns, Order::general}) {
      const auto a = make<TestType>(s.m, s.k, order, random);
      const auto b = make<TestType>(s.k, s.n, order, random);
      uint64_t expected = 0;
      const std::vector<int> runs =
          hero_test::kIsSanitized ? std::vector{1, 3} : std::vector{1, 1, 2, 3, 7, 2};
      for (const int threads : runs) {
        const ThreadLimit limit(threads);
        const uint64_t bits = hash(product(s.m, s.n, s.k, a, b));
        if (expected == 0) expected = bits;
        CAPTURE(s.m, s.n, s.k, threads);
        REQUIRE(bits == expected);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a product with a packed operand has the bits of gemm", "[core][gemm][threads]",
                   float, double) {
  const auto& products = kernels().matrices<TestType>();
  std::mt19937 random(8);
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), {{32, 1024, 256}, {500, 70, 300}, {32, 128, 520}});
  for (const Shape& s : shapes) {
    for (const Order order : kOrders) {
      const auto a = make<TestType>(s.m, s.k, order, random);
      const auto b = make<TestType>(s.k, s.n, order, random);
      const auto expected = product(s.m, s.n, s.k, a, b);
      std::vector<TestType> packed(static_cast<size_t>(products.packed_size(s.k, s.n)));
      products.gemm_pack(s.k, s.n, b.data(), b.rs, b.cs, packed.data());
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        std::vector<TestType> c(static_cast<size_t>(s.m * s.n), TestType{3});
        products.gemm_packed(s.m, s.n, s.k, a.data(), a.rs, a.cs, packed.data(), c.data(), s.n);
        for (int64_t i = 0; i < s.m * s.n; ++i) {
          REQUIRE(c[static_cast<size_t>(i)] == expected.at(i / s.n, i % s.n));
        }
      }
    }
  }
}

TEST_CASE("a row of a product does not depend on the other rows", "[core][gemm]") {
  std::mt19937 random(4);
  const auto a = make<float>(70, 300, Order::rows, random);
  const auto b = make<float>(300, 90, Order::columns, random);
  const auto all = product<float>(70, 90, 300, a, b);
  for (const int64_t row : {0, 13, 69}) {
    std::vector<float> alone(90);
    kernels().of_float.gemm(1, 90, 300, a.data() + row * a.rs, a.rs, a.cs, b.data(), b.rs, b.cs,
                            alone.data(), 90);
    for (int64_t j = 0; j < 90; ++j) {
      REQUIRE(alone[static_cast<size_t>(j)] == all.at(row, j));
    }
  }
}

// Rows 0, 1 .. of a product of 30 rows, computed alone.
template <class T>
void compare_few_rows(int64_t n, int64_t k, std::mt19937& random, Order order = Order::columns) {
  const auto a = make<T>(30, k, order == Order::columns ? Order::rows : Order::general, random);
  const auto b = make<T>(k, n, order, random);
  const auto all = product(30, n, k, a, b);
  for (int64_t rows = 1; rows <= 9; ++rows) {
    CAPTURE(n, k, rows);
    const ThreadLimit limit(static_cast<int>(1 + rows % 3));
    const auto some = product(rows, n, k, a, b);
    REQUIRE(std::equal(some.values.begin(), some.values.end(), all.values.begin()));
  }
}

TEMPLATE_TEST_CASE("a few rows have the bits that they have among many", "[core][gemm][threads]",
                   float, double) {
  std::mt19937 random(9);
  for (const int64_t n : {8, 15, 16, 31, 32, 33, 47, 64, 200}) {
    for (const int64_t k : {16, 100, 257, 700, 1024}) compare_few_rows<TestType>(n, k, random);
  }
}

TEST_CASE("a few rows have these bits beside a weight larger than the caches, too",
          "[core][gemm][threads]") {
  std::mt19937 random(9);
  compare_few_rows<float>(1003, 4300, random);  // more than 16 MiB
}

TEMPLATE_TEST_CASE("a few rows have these bits beside a weight that lies by rows, too",
                   "[core][gemm][threads]", float, double) {
  std::mt19937 random(9);
  for (const int64_t n : {8, 15, 16, 33, 200, 1100}) {
    for (const int64_t k : {15, 16, 100, 257, 515}) {
      compare_few_rows<TestType>(n, k, random, Order::rows);
      compare_few_rows<TestType>(n, k, random, Order::padded_rows);
    }
  }
}

TEMPLATE_TEST_CASE("a column of a product has the bits that it has among many",
                   "[core][gemm][threads]", float, double) {
  std::mt19937 random(9);
  for (const int64_t m : {8, 33, 1100}) {
    for (const int64_t k : {16, 257, 700}) {
      for (const Order order : kOrders) {
        const auto a = make<TestType>(m, k, order, random);
        const auto b = make<TestType>(k, 20, Order::columns, random);
        const auto all = product(m, 20, k, a, b), one = product(m, 1, k, a, b);
        for (int64_t i = 0; i < m; ++i) REQUIRE(one.at(i, 0) == all.at(i, 0));
      }
    }
  }
}

TEMPLATE_TEST_CASE("a column times a row, too large for the caches", "[core][gemm][threads]", float,
                   double) {
  constexpr int64_t rows = 3001, columns = 3003, step = 3005;
  std::vector<TestType> x(rows), y(columns), c(rows * step, TestType{7});
  for (int64_t i = 0; i < rows; ++i) x[static_cast<size_t>(i)] = TestType(i % 7 - 3);
  for (int64_t j = 0; j < columns; ++j) y[static_cast<size_t>(j)] = TestType(j % 5 - 2) / 4;
  kernels().matrices<TestType>().gemm(rows, columns, 1, x.data(), 1, 1, y.data(), columns, 1,
                                      c.data(), step);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < step; ++j) {
      const TestType found = c[static_cast<size_t>(i * step + j)];
      // A chain begins with 0, so no zero is below it.
      const TestType expected =
          j < columns ? x[static_cast<size_t>(i)] * y[static_cast<size_t>(j)] + TestType{0} : 7;
      if (found != expected || std::signbit(found) != std::signbit(expected)) FAIL(i << " " << j);
    }
  }
}

TEST_CASE("gemm reads broadcast operands with stride zero", "[core][gemm]") {
  std::mt19937 random(5);
  for (const Shape& s : {Shape{20, 70, 40}, Shape{40, 3, 30}}) {
    auto a = make<float>(s.m, s.k, Order::rows, random);
    auto b = make<float>(s.k, s.n, Order::rows, random);
    a.rs = 0;
    b.rs = 0;
    compare_with_long_double(s.m, s.n, s.k, a, b);
    a.cs = 0;
    b.cs = 0;
    compare_with_long_double(s.m, s.n, s.k, a, b);
  }
}

TEST_CASE("gemm of no steps is zero and of no rows or columns does nothing", "[core][gemm]") {
  std::vector<float> c(12, 5.0f);
  kernels().of_float.gemm(2, 3, 0, nullptr, 0, 1, nullptr, 3, 1, c.data(), 4);
  REQUIRE(c == std::vector<float>{0, 0, 0, 5, 0, 0, 0, 5, 5, 5, 5, 5});
  kernels().of_float.gemm(0, 3, 4, nullptr, 4, 1, c.data(), 3, 1, nullptr, 3);
  kernels().of_float.gemm(3, 0, 4, c.data(), 4, 1, nullptr, 0, 1, nullptr, 0);
  kernels().of_float.gemm(0, 0, 0, nullptr, 0, 0, nullptr, 0, 0, nullptr, 0);
}

TEMPLATE_TEST_CASE("gemm carries nan and infinity to their rows and columns only", "[core][gemm]",
                   float, double) {
  using Limits = std::numeric_limits<TestType>;
  std::mt19937 random(6);
  for (const Shape& s : {Shape{3, 4, 5}, Shape{40, 70, 33}, Shape{50, 10, 300}}) {
    auto a = make<TestType>(s.m, s.k, Order::rows, random);
    auto b = make<TestType>(s.k, s.n, Order::columns, random);
    a.at(1, 2) = Limits::quiet_NaN();
    b.at(3, 2) = Limits::infinity();
    a.at(0, 3) = 0;  // zero times infinity
    a.at(2, 3) = TestType{0.5};
    const auto c = product(s.m, s.n, s.k, a, b);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        CAPTURE(s.m, s.n, s.k, i, j);
        if (i == 1 || (i == 0 && j == 2)) {
          REQUIRE(std::isnan(c.at(i, j)));
        } else if (j == 2) {
          REQUIRE(std::isinf(c.at(i, j)));
        } else {
          REQUIRE(std::isfinite(c.at(i, j)));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm_batched has the bits of single products", "[core][gemm][threads]", float,
                   double) {
  const auto& products = kernels().matrices<TestType>();
  std::mt19937 random(7);
  struct Batch {
    int64_t batch, m, n, k;
  };
  for (const auto& s : {Batch{50, 9, 7, 3}, Batch{2, 200, 150, 90}, Batch{12, 64, 64, 32},
                        Batch{3, 5, 40, 280}, Batch{0, 4, 4, 4}, Batch{3, 2, 2, 0}}) {
    const auto a = make<TestType>(s.batch * s.m, s.k, Order::rows, random);
    const auto b = make<TestType>(s.batch * s.n, s.k, Order::rows, random);  // its transpose is B
    for (const int64_t b_bs : {s.n * s.k, int64_t{0}}) {
      const auto size = static_cast<size_t>(s.batch * s.m * s.n);
      std::vector<TestType> expected(size);
      for (int64_t p = 0; p < s.batch; ++p) {
        products.gemm(s.m, s.n, s.k, a.data() + p * s.m * s.k, s.k, 1, b.data() + p * b_bs, 1, s.k,
                      expected.data() + p * s.m * s.n, s.n);
      }
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        std::vector<TestType> c(size, TestType{3});
        products.gemm_batched(s.batch, s.m, s.n, s.k, a.data(), s.m * s.k, s.k, 1, b.data(), b_bs,
                              1, s.k, c.data(), s.m * s.n, s.n);
        REQUIRE(c == expected);
      }
    }
  }
}

}  // namespace
