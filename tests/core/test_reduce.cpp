// The sums themselves: values, layouts, bits. Shapes, dtypes and errors are in test_reductions.cpp.
#include <cmath>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/reductions.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

constexpr ReduceKind kSums[] = {ReduceKind::sum,           ReduceKind::prod,
                                ReduceKind::sum_abs,       ReduceKind::sum_square,
                                ReduceKind::sum_deviation, ReduceKind::sum_exp};

// One element's part of a reduction, in long double.
long double part(ReduceKind op, long double x, long double center) {
  switch (op) {
    case ReduceKind::sum_abs:
      return std::abs(x);
    case ReduceKind::sum_square:
      return x * x;
    case ReduceKind::sum_deviation:
      return (x - center) * (x - center);
    case ReduceKind::sum_exp:
      return std::exp(x - center);
    default:
      return x;
  }
}

struct Total {
  long double value;
  long double size;  // of the terms without signs: what an error bound is relative to
};

Total total(ReduceKind op, const std::vector<double>& x, size_t begin, size_t n, double center) {
  Total result{op == ReduceKind::prod ? 1.0L : 0.0L, 0};
  for (size_t i = begin; i < begin + n; ++i) {
    const long double term = part(op, x[i], center);
    if (op == ReduceKind::prod) {
      result.value *= term;
    } else {
      result.value += term;
      result.size += std::abs(term);
    }
  }
  if (op == ReduceKind::prod) result.size = std::abs(result.value);
  return result;
}

bool centered(ReduceKind op) {
  return op == ReduceKind::sum_deviation || op == ReduceKind::sum_exp;
}

TEST_CASE("sums match long double within the bound of a pairwise tree", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const double unit = dtype == kFloat32 ? 0x1p-24 : 0x1p-53;
    for (const int64_t n : {1, 7, 8, 9, 127, 128, 129, 1000, 4099, 100003}) {
      const Array raw = noise({n}, dtype, 11);
      for (const ReduceKind op : kSums) {
        // A product of numbers near one stays in range.
        const Array x = op == ReduceKind::prod
                            ? make(
                                  {n}, [](int64_t i) { return i % 2 ? 1.001 : 0.999; }, dtype)
                            : raw;
        const Array center = Array::full({1}, 0.25, dtype);
        const Array* given = centered(op) ? &center : nullptr;
        const auto got = reduce(op, x, {0}, KeepDims::no, given).item<double>();
        const Total want = total(op, x.to_vector<double>(), 0, static_cast<size_t>(n), 0.25);
        // Sums: 16 additions in a lane, 3 to join lanes, 8 for a leaf's tail, a level for each
        // halving, and up to 8 roundings within a term. Products: one rounding a factor.
        const double roundings = op == ReduceKind::prod ? static_cast<double>(n)
                                                        : 40 + std::log2(static_cast<double>(n));
        REQUIRE(std::abs(static_cast<double>(got - want.value)) <=
                roundings * unit * static_cast<double>(want.size));
      }
    }
  }
}

TEST_CASE("a long float sum of equal terms loses almost nothing", "[core]") {
  const int64_t n = 10000000;
  const Array x = Array::full({n}, 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  // A running float sum is off by 8 %; the tree by at most its depth in units of 2^-24.
  REQUIRE(std::abs(reduce(ReduceKind::sum, x).item() - exact) <= 45 * 0x1p-24 * exact);
}

// The same reduction of the same values laid out differently.
void same_bits_in_every_layout(const Shape& shape, DType dtype) {
  const Array x = noise(shape, dtype, 12);
  Array wide = Array::zeros({shape[0], shape[1], shape[2] * 2}, dtype).slice(2, 0, kEnd, 2);
  backend(kCpu).run(call::Copy{x, wide});
  const Array turned = x.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
  const Array layouts[] = {turned, wide, awkward(x),
                           x.transpose(0, 1).contiguous().transpose(0, 1)};
  const Dims all_dims[] = {{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}};
  for (const Dims& dims : all_dims) {
    for (const ReduceKind op :
         {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::sum_square}) {
      const Array expected = reduce(op, x, dims);
      for (const Array& layout : layouts) REQUIRE(same(reduce(op, layout, dims), expected));
    }
  }
}

TEST_CASE("the layout of an array does not change the bits of its sums", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt32}) {
    same_bits_in_every_layout({3, 5, 7}, dtype);
    same_bits_in_every_layout({20, 300, 40}, dtype);
  }
  same_bits_in_every_layout({1, 200, 1}, kFloat32);
  same_bits_in_every_layout({2, 1, 70000}, kFloat32);
}

TEST_CASE("columns of halves, which are read in place, have the bits of their float32 sums",
          "[core]") {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{129, 33}, Shape{300, 2100},
                               Shape{2, 40, 70}, Shape{3, 1000, 17}}) {
      const Array x = noise(shape, dtype, 5);
      const int dim = x.ndim() - 2;
      const Array expected = reduce(ReduceKind::sum, x.to(kFloat32), {dim}).to(dtype);
      for (const int threads : {1, 3}) {
        const ThreadLimit limit(threads);
        CAPTURE(name(dtype), shape, threads);
        CHECK(same(reduce(ReduceKind::sum, x, {dim}), expected));
        CHECK(same(reduce(ReduceKind::sum, awkward(x), {dim}), expected));
      }
    }
  }
}

TEST_CASE("every dim of every dtype sums exactly for small integers", "[core]") {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat32, kFloat64}) {
    const Array x = make(
        {4, 50, 30}, [](int64_t i) { return i * 5 % 2; }, dtype);
    for (int dim = 0; dim < 3; ++dim) {
      const auto got = reduce(ReduceKind::sum, x, {dim}).to_vector<double>();
      const auto rows = x.transpose(dim, -1);
      const Array by_rows = rows.contiguous();
      const auto flat = by_rows.to_vector<double>();
      const auto n = static_cast<size_t>(x.size(dim));
      const auto sums = reduce(ReduceKind::sum, x, {dim}, KeepDims::yes).transpose(dim, -1);
      const auto kept = sums.to_vector<double>();
      for (size_t r = 0; r < kept.size(); ++r) {
        double expected = 0;
        for (size_t i = 0; i < n; ++i) expected += flat[r * n + i];
        REQUIRE(kept[r] == expected);
      }
      REQUIRE(got.size() == kept.size());
    }
  }
}

TEST_CASE("extremes let NaN win, wherever it stands", "[core]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t at : {0u, 1u, 7u, 8u, 9u, 130u, 199u}) {
    std::vector<float> values(200, 1.0f);
    values[at] = nan;
    const Array row = Array::from(values, {1, 200}), column = Array::from(values, {200, 1});
    for (const ReduceKind op : {ReduceKind::max, ReduceKind::min}) {
      REQUIRE(std::isnan(reduce(op, row).item()));
      REQUIRE(
          std::isnan(reduce(op, column.expand({200, 64}).contiguous(), {0}).select(0, 63).item()));
    }
  }
}

TEST_CASE("any and all read every element as a truth value", "[core]") {
  const Array x = Array::from(std::vector<float>{0, 0.25f, 0, 0, -1, 2}, {2, 3});
  REQUIRE(reduce(ReduceKind::any, x, {1}).to_vector<bool>() == std::vector<bool>{true, true});
  REQUIRE(reduce(ReduceKind::any, x, {0}).to_vector<bool>() ==
          std::vector<bool>{false, true, true});
  REQUIRE(reduce(ReduceKind::all, x, {1}).to_vector<bool>() == std::vector<bool>{false, false});
  REQUIRE(reduce(ReduceKind::all, x.slice(1, 1), {0}).to_vector<bool>() ==
          std::vector<bool>{true, false});
  REQUIRE_FALSE(reduce(ReduceKind::any, Array::zeros({0})).item<bool>());
  REQUIRE(reduce(ReduceKind::all, Array::zeros({0})).item<bool>());
  REQUIRE(reduce(ReduceKind::any, Array::full({3}, 256, kInt64)).item<bool>());
}

TEST_CASE("empty reductions give the neutral element", "[core]") {
  REQUIRE(reduce(ReduceKind::sum, Array::zeros({0})).item() == 0.0);
  REQUIRE(reduce(ReduceKind::prod, Array::zeros({3, 0}), {1}).to_vector<float>() ==
          std::vector<float>{1, 1, 1});
  REQUIRE(reduce(ReduceKind::sum, Array::zeros({3, 0}), {0}).shape() == Shape{0});
}

}  // namespace
