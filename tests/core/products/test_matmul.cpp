#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/half_products.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/ledger.h>
#include <hero/core/memory/allocator.h>

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

TEST_CASE("products of halves convert a bounded part at a time", "[core]") {
  const Array a = noise({64, 128, 128}, kBFloat16, 1), b = noise({128, 128}, kBFloat16, 2);
  current_ledger().reset_peak();
  const int64_t before = current_ledger().live();
  const Array out = matmul(a.transpose(1, 2), b);
  // The result, and about 4 MiB of float32 beside the matrix that is repeated.
  REQUIRE(current_ledger().peak() - before <= out.nbytes() + (5 << 20));
}

TEST_CASE("large products of halves convert blocks, with the bits of a conversion of all",
          "[core]") {
  struct Sizes {
    int64_t m, k, n;
  };
  // Large alone: the right operand; the left one; both; k, which is cut; one row; the result.
  const std::vector<Sizes> all = {{5, 3001, 4099},  {9001, 2003, 3},    {1100, 4100, 1090},
                                  {3, 70'001, 290}, {1, 4096, 8200},    {1, 9'000'001, 1},
                                  {5003, 1, 4001},  {260, 40'000, 130}, {4'200'005, 1, 2}};
  for (const DType dtype : {kFloat16, kBFloat16}) {
    if (dtype == kBFloat16 && native_half_products()) continue;  // nothing is converted
    for (const Sizes& size : all) {
      for (const bool turned : {false, true}) {
        CAPTURE(dtype, size.m, size.k, size.n, turned);
        const auto matrix = [&](int64_t rows, int64_t columns, uint64_t seed) {
          return turned ? noise({columns, rows}, dtype, seed).t()
                        : noise({rows, columns}, dtype, seed);
        };
        const Array a = matrix(size.m, size.k, 1), b = matrix(size.k, size.n, 2);
        const Array expected = matmul(a.to(kFloat32), b.to(kFloat32)).to(dtype);
        current_ledger().reset_peak();
        const int64_t before = current_ledger().live();
        const Array out = matmul(a, b);
        // Three blocks of at most 16 MiB; all of an operand would be up to 45 MB.
        CHECK(current_ledger().peak() - before <= out.nbytes() + (3 * 16 << 20));
        CHECK(same(out, expected));
      }
    }
  }
  empty_cache();  // tests of memory's limits want none
}

TEST_CASE("a layer of halves converts blocks of its weight", "[core]") {
  const int64_t rows = 70, inputs = 4096, outputs = 8192;  // a weight of 64 MiB
  const Array x = noise({rows, inputs}, kFloat16, 1), w = noise({outputs, inputs}, kFloat16, 2);
  const Array bias = noise({outputs}, kFloat16, 3), wide = Array::empty({rows, outputs});
  const Array sums = matmul(x.to(kFloat32), w.t().to(kFloat32)), shift = bias.to(kFloat32);
  for (const Activation activation : {Activation::none, Activation::gelu}) {
    Array out = Array::empty({rows, outputs}, kFloat16), z = out.empty_like();
    current_ledger().reset_peak();
    const int64_t before = current_ledger().live();
    backend(kCpu).run(call::Linear{activation, x, w, &bias, out, &z});
    CHECK(current_ledger().peak() - before <= 24 << 20);  // a block, 1 MiB of x, sums and a bias
    const Array both = sums.clone();
    backend(kCpu).run(call::BiasActivation{activation, &shift, both, wide});
    CHECK(same(out, wide.to(kFloat16)));
    CHECK(same(z, both.to(kFloat16)));
  }
  empty_cache();
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
