// What is done along a dimension has the same bits whether lines lie one behind the other or side
// by side, where a kernel takes many columns at a time.
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

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// NumPy's tree, an element after the other.
template <class T, class Join>
T tree_of(const T* x, int64_t n, const Join& join) {
  if (n > 128) {
    const int64_t left = n / 2 - n / 2 % 8;
    const T first = tree_of(x, left, join);
    return join(first, tree_of(x + left, n - left, join));
  }
  T value = x[0];
  int64_t i = 1;
  if (n >= 8) {
    T lane[8];
    std::copy_n(x, 8, lane);
    for (i = 8; i + 8 <= n; i += 8) {
      for (int64_t j = 0; j < 8; ++j) lane[j] = join(lane[j], x[i + j]);
    }
    for (int64_t step = 1; step < 8; step *= 2) {
      for (int64_t j = 0; j < 8; j += 2 * step) lane[j] = join(lane[j], lane[j + step]);
    }
    value = lane[0];
  }
  for (; i < n; ++i) value = join(value, x[i]);
  return value;
}

template <class T>
T joined(ReduceKind op, T a, T b) {
  if (op == ReduceKind::sum) return a + b;
  if (op == ReduceKind::prod) return a * b;
  if (a != a) return a;  // a NaN stays; of zeros of both signs the last one is taken
  return op == ReduceKind::max ? (a > b ? a : b) : (a < b ? a : b);
}

// Values among which no order is without consequences: zeros of both signs, NaN and infinities.
template <class T>
Array mixed(const Shape& shape, int kind) {
  const Array x = noise(shape, kDTypeOf<T>, 21);
  T* value = x.data<T>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto h = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u >> 40;
    if (kind == 1) value[i] = h % 3 == 0 ? T(0) : h % 3 == 1 ? -T(0) : -std::abs(value[i]);
    if (kind == 2 && h % 301 == 0) value[i] = static_cast<T>(kNaN);
    if (kind >= 2 && h % 103 == 1) value[i] = static_cast<T>(h % 2 == 0 ? kInfinite : -kInfinite);
  }
  return x;
}

// x with `dim` last, in memory too.
Array lines(const Array& x, int dim) { return x.transpose(dim, -1).contiguous(); }

bool same_but_for_kinds_of_nan(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]);
    if (!same && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
  }
  return true;
}

template <class T>
void reductions_follow_the_tree(const Shape& shape, int dim) {
  for (int kind = 0; kind < 4; ++kind) {
    const Array x = mixed<T>(shape, kind), rows = lines(x, dim);
    const int64_t n = rows.shape().back();
    for (const auto op : {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min}) {
      Array expected = Array::empty(rows.select(-1, 0).shape(), kDTypeOf<T>);
      for (int64_t r = 0; r < expected.numel(); ++r) {
        expected.data<T>()[r] =
            tree_of(rows.data<T>() + r * n, n, [&](T a, T b) { return joined(op, a, b); });
      }
      const Array kept = expected.unsqueeze(-1).transpose(dim, -1);
      for (const int threads : {1, 3}) {
        const ThreadLimit limit(threads);
        CAPTURE(shape, dim, kind, static_cast<int>(op), threads);
        for (const Array& layout : {x, awkward(x), rows.transpose(dim, -1)}) {
          CHECK(same_but_for_kinds_of_nan(reduce(op, layout, {dim}, KeepDims::yes), kept));
        }
      }
    }
  }
}

TEST_CASE("reductions of rows and of columns join elements in the order of NumPy's tree",
          "[core]") {
  for (const auto& [shape, dim] : {std::pair{Shape{1, 1}, 0},
                                   {Shape{3, 7}, 1},
                                   {Shape{9, 5}, 0},
                                   {Shape{130, 33}, 0},
                                   {Shape{33, 130}, 1},
                                   {Shape{5, 1100}, 1},
                                   {Shape{1100, 3}, 0},
                                   {Shape{1100, 40}, 0},
                                   {Shape{3, 300, 17}, 1},
                                   {Shape{2, 40, 2100}, 1},
                                   {Shape{1, 70001}, 1}}) {
    reductions_follow_the_tree<float>(shape, dim);
    reductions_follow_the_tree<double>(shape, dim);
  }
}

TEST_CASE("a reduction of dimensions between others is that of the elements side by side",
          "[core]") {
  const Array x = noise({6, 5, 4, 3, 18}, kFloat32, 4);
  for (const Dims& dims : {Dims{0},
                           {1},
                           {3},
                           {4},
                           {0, 2},
                           {1, 3},
                           {0, 3},
                           {0, 2, 3},
                           {1, 4},
                           {0, 4},
                           {0, 2, 4},
                           {0, 1, 2, 3},
                           {0, 1, 2, 3, 4}}) {
    Dims order;
    Shape kept;
    for (int i = 0; i < x.ndim(); ++i) {
      if (dims.contains(i)) continue;
      order.push_back(i);
      kept.push_back(x.shape()[i]);
    }
    for (const int64_t dim : dims) order.push_back(dim);
    const Array rows = x.permute(order).contiguous().reshape({kept.numel(), -1});
    for (const auto op : {ReduceKind::sum, ReduceKind::max, ReduceKind::sum_square}) {
      CAPTURE(dims, static_cast<int>(op));
      const Array expected = reduce(op, rows, {1}).reshape(kept);
      CHECK(same(reduce(op, x, dims), expected));
      CHECK(same(reduce(op, awkward(x), dims), expected));
      const Array turned = x.permute({4, 2, 0, 3, 1}).contiguous().permute({2, 4, 1, 3, 0});
      CHECK(same(reduce(op, turned, dims), expected));
      CHECK(same(reduce(op, x.to(kBFloat16), dims),
                 reduce(op, rows.to(kBFloat16), {1}).reshape(kept)));
    }
  }
}

// Lengths and widths around those at which kernels change their way.
const std::vector<std::pair<Shape, int>>& side_by_side() {
  static const std::vector<std::pair<Shape, int>> all = {
      {{1, 16}, 0},       {{2, 5, 16}, 1}, {{31, 17}, 0},    {{32, 40}, 0},   {{3, 33, 4, 5}, 1},
      {{2, 64, 2100}, 1}, {{600, 19}, 0},  {{1100, 300}, 0}, {{5000, 40}, 0}, {{2, 70, 1, 36}, 1}};
  return all;
}

TEST_CASE("softmaxes along columns have the bits of those along rows", "[core]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    for (const auto& [shape, dim] : side_by_side()) {
      for (const auto kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
        const Array x = noise(shape, dtype, 3), g = noise(shape, dtype, 4);
        const Array of_rows = softmax(kind, lines(x, dim), -1);
        const Array back = softmax_backward(kind, lines(g, dim), of_rows, -1).transpose(dim, -1);
        const Array repeated = g.slice(0, 0, 1).expand(shape);
        for (const int threads : {1, 3}) {
          const ThreadLimit limit(threads);
          CAPTURE(name(dtype), shape, dim, static_cast<int>(kind), threads);
          const Array y = softmax(kind, x, dim);
          CHECK(same(y, of_rows.transpose(dim, -1)));
          CHECK(same(softmax(kind, awkward(x), dim), y));
          CHECK(same(softmax_backward(kind, g, y, dim), back));
          CHECK(same(softmax_backward(kind, awkward(g), y, dim), back));
          CHECK(same(softmax_backward(kind, repeated, y, dim),
                     softmax_backward(kind, repeated.contiguous(), awkward(y), dim)));
        }
      }
    }
  }
}

TEST_CASE("a softmax of columns has NaN where a column has one, or nothing but -inf", "[core]") {
  const Array x = noise({40, 24}, kFloat32, 5);
  x.data<float>()[17 * 24 + 3] = static_cast<float>(kNaN);
  x.data<float>()[9 * 24 + 5] = static_cast<float>(kInfinite);
  backend(kCpu).run(call::Fill{x.slice(1, 7, 8), -kInfinite});
  x.data<float>()[30 * 24 + 9] = static_cast<float>(-kInfinite);
  for (const auto kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const Array y = softmax(kind, x, 0);
    CHECK(same_but_for_kinds_of_nan(y, softmax(kind, lines(x, 0), 1).transpose(0, 1)));
    for (const int64_t column : {3, 5, 7})
      CHECK(std::isnan(y.select(1, column).select(0, 1).item()));
    CHECK(y.select(1, 9).select(0, 30).item() == (kind == SoftmaxKind::softmax ? 0.0 : -kInfinite));
  }
}

TEST_CASE("running sums and products are those of an element after the other in double", "[core]") {
  auto shapes = side_by_side();
  shapes.insert(shapes.end(), {{{7}, 0}, {{5, 9}, 1}, {{19, 300}, 1}, {{4, 1, 3}, 1}});
  for (const auto& [shape, dim] : shapes) {
    const Array x = noise(shape, kFloat32, 6), rows = lines(x, dim);
    const int64_t n = rows.shape().back();
    for (const auto op : {ScanOp::sum, ScanOp::prod}) {
      for (const auto direction : {Direction::forward, Direction::backward}) {
        Array expected = rows.empty_like();
        for (int64_t r = 0; r < rows.numel() / n; ++r) {
          double value = op == ScanOp::sum ? 0.0 : 1.0;
          for (int64_t i = 0; i < n; ++i) {
            const int64_t at = r * n + (direction == Direction::forward ? i : n - 1 - i);
            const double next = rows.data<float>()[at];
            value = op == ScanOp::sum ? value + next : value * next;
            expected.data<float>()[at] = static_cast<float>(value);
          }
        }
        for (const int threads : {1, 3}) {
          const ThreadLimit limit(threads);
          CAPTURE(shape, dim, static_cast<int>(op), static_cast<int>(direction), threads);
          const Array y = cumulative(op, direction, x, dim);
          CHECK(same(y, expected.transpose(dim, -1)));
          CHECK(same(cumulative(op, direction, awkward(x), dim), y));
          const Array half = x.to(kFloat16);
          CHECK(same(cumulative(op, direction, half, dim),
                     cumulative(op, direction, half.to(kFloat32), dim).to(kFloat16)));
          const Array whole = x.to(kInt64);
          CHECK(same(cumulative(op, direction, whole, dim),
                     cumulative(op, direction, lines(whole, dim), -1).transpose(dim, -1)));
        }
      }
    }
  }
}

TEST_CASE("the best of columns are those of rows: the first NaN, else the first of the best",
          "[core]") {
  for (const auto& [shape, dim] : side_by_side()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64, kInt32, kUInt8}) {
      // Few values, so that many are equal, and a NaN here and there.
      const Array x = make(
          shape,
          [&, floats = is_floating(dtype)](int64_t i) {
            const auto h = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u >> 40;
            return floats && h % 211 == 0 ? kNaN : static_cast<double>(h % 5);
          },
          dtype);
      for (const auto op : {ArgOp::max, ArgOp::min}) {
        const ArgResult of_rows = arg_reduce(op, lines(x, dim), -1, KeepDims::yes);
        const ArgResult found = arg_reduce(op, x, dim, KeepDims::yes);
        CAPTURE(name(dtype), shape, dim, static_cast<int>(op));
        CHECK(same(found.indices, of_rows.indices.transpose(dim, -1)));
        CHECK(same_but_for_kinds_of_nan(found.values, of_rows.values.transpose(dim, -1)));
      }
    }
  }
}

}  // namespace
