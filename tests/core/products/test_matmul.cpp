#include <cmath>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/half_products.h"

#include <hero/core/functions/half_products.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/ledger.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

// Products of [.., M, K] and [.., K, N] by a loop in double, over broadcast views.
std::vector<double> reference(const Array& a, const Array& b, const Shape& batch) {
  Shape as = batch, bs = batch;
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  as.push_back(m), as.push_back(k), bs.push_back(k), bs.push_back(n);
  const auto x = a.to(kFloat64).expand(as).to_vector<double>();
  const auto y = b.to(kFloat64).expand(bs).to_vector<double>();
  std::vector<double> out;
  for (int64_t p = 0; p < batch.numel(); ++p) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q) {
          sum += x[static_cast<size_t>((p * m + i) * k + q)] *
                 y[static_cast<size_t>((p * k + q) * n + j)];
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

void check_product(const Array& a, const Array& b, const Shape& batch, double tolerance) {
  const Array out = matmul(a, b);
  Shape shape = batch;
  shape.push_back(a.size(-2)), shape.push_back(b.size(-1));
  REQUIRE(out.shape() == shape);
  REQUIRE(out.dtype() == a.dtype());
  REQUIRE(out.is_contiguous());
  const auto expected = reference(a, b, batch);
  const auto got = out.to(kFloat64).to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - expected[i]) <= tolerance);
}

TEST_CASE("matmul broadcasts batch dimensions as PyTorch's", "[core]") {
  const struct {
    Shape a, b, batch;
  } cases[] = {
      {{3, 4}, {4, 5}, {}},
      {{2, 3, 4}, {4, 5}, {2}},
      {{3, 4}, {2, 4, 5}, {2}},
      {{2, 3, 4}, {2, 4, 5}, {2}},
      {{2, 1, 3, 4}, {6, 4, 5}, {2, 6}},
      {{2, 6, 3, 4}, {1, 6, 4, 5}, {2, 6}},
      {{2, 6, 3, 4}, {2, 1, 4, 5}, {2, 6}},
      {{1, 1, 3, 4}, {1, 4, 5}, {1, 1}},
      {{2, 3, 0}, {0, 5}, {2}},
      {{0, 3, 4}, {4, 5}, {0}},
  };
  for (const auto& item : cases) {
    for (const DType dtype : {kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
      const Array a = noise(item.a, dtype, 1), b = noise(item.b, dtype, 2);
      // Four terms of size at most 4: 2^-9 relative for bfloat16's one rounding, none for integers.
      const double tolerance = is_floating(dtype) ? (item_size(dtype) == 2 ? 16 * 0x1p-8
                                                     : dtype == kFloat32   ? 1e-5
                                                                           : 1e-14)
                                                  : 0;
      check_product(a, b, item.batch, tolerance);
      REQUIRE(same(matmul(awkward(a), awkward(b)), matmul(a, b)));
    }
  }
}

TEST_CASE("matmul reads permuted heads without a copy", "[core]") {
  // [batch, time, heads, depth] -> [batch, heads, time, depth]: two batch strides that do not
  // merge.
  const Array q = noise({2, 5, 3, 4}, kFloat32, 1).permute({0, 2, 1, 3});
  const Array k = noise({2, 5, 3, 4}, kFloat32, 2).permute({0, 2, 1, 3});
  current_ledger().reset_peak();
  const int64_t before = current_ledger().live();
  const Array scores = matmul(q, k.t());
  REQUIRE(current_ledger().peak() - before == scores.nbytes());
  // Four products of at most 4 and their sums, rounded to 2^-24 each.
  check_product(q, k.t(), {2, 3}, 1e-5);
}

TEST_CASE("a list is a row on the left and a column on the right", "[core]") {
  const Array v = Array::from(std::vector<float>{1, 2, 3}, {3});
  const Array m = make({3, 2}, [](int64_t i) { return i; });
  REQUIRE(matmul(v, v).shape() == Shape{});
  REQUIRE(matmul(v, v).item() == 14.0);
  REQUIRE(matmul(v, m).to_vector<float>() == std::vector<float>{16, 22});
  REQUIRE(matmul(m.t(), v).to_vector<float>() == std::vector<float>{16, 22});
  REQUIRE(matmul(v, m.expand({4, 3, 2})).shape() == Shape{4, 2});
  REQUIRE(matmul(m.t().expand({4, 2, 3}), v).shape() == Shape{4, 2});
  REQUIRE(matmul(v.expand({1, 1, 3}), v).shape() == Shape{1, 1});
}

TEST_CASE("integer products are exact and wrap", "[core]") {
  const int64_t big = (int64_t{1} << 53) + 1;  // no double
  const Array a = Array::from(std::vector<int64_t>{big, 1}, {1, 2});
  const Array b = Array::from(std::vector<int64_t>{3, 1}, {2, 1});
  REQUIRE(matmul(a, b).item<int64_t>() == 3 * big + 1);
  const Array bytes = Array::full({1, 2}, 200, kUInt8);
  REQUIRE(matmul(bytes, bytes.t()).item<int64_t>() == 80000 % 256);
}

// The bits are those of a product of converted operands, and memory holds none of these.
void check_halves(const Array& a, const Array& b) {
  const Array expected = matmul(a.to(kFloat32), b.to(kFloat32)).to(a.dtype());
  current_ledger().reset_peak();
  const int64_t before = current_ledger().live();
  const Array out = matmul(a, b);
  CHECK(current_ledger().peak() - before == out.nbytes());
  CHECK(same(out, expected));
}

TEST_CASE("products of halves have the bits of float32 ones, without converted copies",
          "[core][half]") {
  const HalfProductsScope scope(HalfProducts::portable);
  struct Sizes {
    int64_t m, k, n;
  };
  const std::vector<Sizes> all = {
      // a few multiply-adds; a few rows or columns; those and long sums; parts of tiles
      {1, 1, 1},       {5, 5, 5},       {2, 1, 60},    {1, 300, 40},    {8, 600, 37},
      {7, 100, 900},   {900, 100, 7},   {3, 900, 700}, {9, 33, 31},     {64, 784, 10},
      {45, 1025, 70},  {130, 256, 130}, {430, 257, 1}, {1, 70'001, 70}, {5, 3001, 1099},
      {2001, 2003, 3}, {440, 530, 600}, {503, 1, 401}, {260, 9001, 130}};
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const Sizes& size : all) {
      for (const bool left : {false, true}) {
        for (const bool right : {false, true}) {
          CAPTURE(dtype, size.m, size.k, size.n, left, right);
          const auto matrix = [&](bool turned, int64_t rows, int64_t columns, uint64_t seed) {
            return turned ? noise({columns, rows}, dtype, seed).t()
                          : noise({rows, columns}, dtype, seed);
          };
          check_halves(matrix(left, size.m, size.k, 1), matrix(right, size.k, size.n, 2));
        }
      }
      const Array a = noise({size.m, size.k}, dtype, 1), b = noise({size.k, size.n}, dtype, 2);
      if (a.numel() + b.numel() < 100'000) check_halves(awkward(a), awkward(b));
    }
    // Batches: many small products, few large ones, and one matrix that is repeated.
    const Array a = noise({70, 5, 13}, dtype, 1), b = noise({70, 13, 9}, dtype, 2);
    check_halves(a, b);
    check_halves(a.transpose(1, 2), a);
    check_halves(noise({3, 200, 300}, dtype, 3), noise({3, 300, 100}, dtype, 4));
    check_halves(a, b.select(0, 0));
    check_halves(a.transpose(0, 1), b.select(0, 0));
    check_halves(a.select(0, 0).expand({70, 5, 13}), b);
  }
}

TEST_CASE("every half becomes the float that it is on its way into a product", "[core][half]") {
  const HalfProductsScope scope(HalfProducts::portable);
  constexpr int64_t kCount = 1 << 16;
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Array all = Array::empty({kCount / 64, 64}, dtype);
    auto* const bits = reinterpret_cast<uint16_t*>(all.bytes());
    for (int64_t i = 0; i < kCount; ++i) bits[i] = static_cast<uint16_t>(i);
    const Array one = Array::full({1, 1}, 1, dtype);
    const auto column = all.reshape({kCount, 1}), row = all.reshape({1, kCount});
    const Array x = all.to(kFloat32).reshape({kCount});
    // one in each row, at every place of a line that is turned as it is packed
    const Array lines = Array::zeros({kCount, 64}, dtype);
    auto* const places = reinterpret_cast<uint16_t*>(lines.bytes());
    for (int64_t i = 0; i < kCount; ++i) places[i * 64 + i % 64] = bits[i];
    for (const Array& out : {matmul(column, one.expand({1, 20})).select(1, 3).contiguous(),
                             matmul(one.expand({20, 1}), row).select(0, 3).contiguous(),
                             matmul(lines, one.expand({64, 20})).select(1, 3).contiguous()}) {
      const auto found = out.to(kFloat32).to_vector<float>(), expected = x.to_vector<float>();
      for (size_t i = 0; i < found.size(); ++i) {
        // the chain begins at zero, so a zero is positive
        if (std::isnan(expected[i])) {
          CHECK(std::isnan(found[i]));
        } else {
          CHECK(found[i] == expected[i]);
        }
      }
    }
  }
}

TEST_CASE("a layer of halves converts neither its weight nor its rows", "[core][half]") {
  const HalfProductsScope scope(HalfProducts::portable);
  const int64_t rows = 70, inputs = 700, outputs = 1200;
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Array x = noise({rows, inputs}, dtype, 1), w = noise({outputs, inputs}, dtype, 2);
    const Array bias = noise({outputs}, dtype, 3), wide = Array::empty({rows, outputs});
    const Array sums = matmul(x.to(kFloat32), w.t().to(kFloat32)), shift = bias.to(kFloat32);
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
      Array out = Array::empty({rows, outputs}, dtype), z = out.empty_like();
      current_ledger().reset_peak();
      const int64_t before = current_ledger().live();
      backend(kCpu).run(call::Linear{activation, x, w, &bias, out, &z});
      CHECK(current_ledger().peak() - before == shift.nbytes());
      const Array both = sums.clone();
      backend(kCpu).run(call::BiasActivation{activation, &shift, both, wide});
      CHECK(same(out, wide.to(dtype)));
      CHECK(same(z, both.to(dtype)));
    }
  }
}

TEST_CASE("matmul's errors show both shapes", "[core]") {
  REQUIRE(error_of([] {
            matmul(Array::zeros({64, 784}), Array::zeros({512, 10}));
          }) ==
          "matmul: inner sizes differ: [64, 784] x [512, 10]; the last size of the first must be "
          "the last but one of the second");
  REQUIRE(error_of([] {
            matmul(Array::zeros({2, 3, 4}), Array::zeros({3, 4, 5}));
          }) == "matmul: shapes do not broadcast: [2] and [3]");
  REQUIRE(error_of([] { matmul(Array::zeros({}), Array::zeros({3})); }) ==
          "matmul: needs at least one dimension: [] x [3]; multiply by a number with *");
  REQUIRE(error_of([] { matmul(Array::zeros({2}), Array::zeros({2}, kFloat64)); }) ==
          "matmul: dtypes differ: float32 and float64; convert one with to()");
  REQUIRE(error_of([] { matmul(Array::zeros({2}, kBool), Array::zeros({2}, kBool)); }) ==
          "matmul: bool has no product; convert with to()");
}

}  // namespace
