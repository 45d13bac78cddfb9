#include <algorithm>
#include <limits>
#include <numeric>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_CASE("reductions give PyTorch's dtypes", "[core]") {
  const auto dtype = [](ReduceKind op, DType of) {
    return reduce(op, Array::ones({2}, of)).dtype();
  };
  for (const DType of : {kBool, kUInt8, kInt32, kInt64}) {
    REQUIRE(dtype(ReduceKind::sum, of) == kInt64);
    REQUIRE(dtype(ReduceKind::prod, of) == kInt64);
    REQUIRE(dtype(ReduceKind::max, of) == of);
    REQUIRE(dtype(ReduceKind::any, of) == kBool);
  }
  for (const DType of : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    REQUIRE(dtype(ReduceKind::sum, of) == of);
    REQUIRE(dtype(ReduceKind::min, of) == of);
    REQUIRE(dtype(ReduceKind::sum_square, of) == of);
    REQUIRE(dtype(ReduceKind::all, of) == kBool);
  }
  REQUIRE(reduce(ReduceKind::sum, Array::ones({300}, kUInt8)).item<int64_t>() == 300);
}

TEST_CASE("reduced dimensions are dropped or kept with size one", "[core]") {
  const Array x = Array::ones({2, 3, 4});
  REQUIRE(reduce(ReduceKind::sum, x).shape() == Shape{});
  REQUIRE(reduce(ReduceKind::sum, x, {1}).shape() == Shape{2, 4});
  REQUIRE(reduce(ReduceKind::sum, x, {-1, 0}).shape() == Shape{3});
  REQUIRE(reduce(ReduceKind::sum, x, {-1, 0}, KeepDims::yes).shape() == Shape{1, 3, 1});
  REQUIRE(reduce(ReduceKind::sum, Array::ones({}), {0}).item() == 1.0);
}

TEST_CASE("an empty dimension has a sum but no extreme", "[core]") {
  const Array x = Array::zeros({2, 0});
  REQUIRE(reduce(ReduceKind::sum, x, {1}).to_vector<float>() == Floats{0, 0});
  REQUIRE(reduce(ReduceKind::prod, x, {1}).to_vector<float>() == Floats{1, 1});
  REQUIRE(reduce(ReduceKind::max, x, {0}).shape() == Shape{0});
  REQUIRE(error_of([&] { reduce(ReduceKind::max, x, {1}); }) ==
          "max: dim 1 of shape [2, 0] is empty and has no maximum");
  REQUIRE(error_of([&] { arg_reduce(ArgOp::min, x, 1); }) ==
          "argmin: dim 1 of shape [2, 0] is empty");
}

TEST_CASE("reductions check their center", "[core]") {
  const Array x = Array::ones({2, 3}), center = Array::ones({2, 1});
  REQUIRE(reduce(ReduceKind::sum_deviation, x, {1}, KeepDims::no, &center).to_vector<float>() ==
          Floats{0, 0});
  REQUIRE(error_of([&] { reduce(ReduceKind::sum_exp, x, {1}); }) == "sum_exp: needs a center");
  REQUIRE(error_of([&] { reduce(ReduceKind::sum, x, {1}, KeepDims::no, &center); }) ==
          "sum: takes no center");
  REQUIRE(error_of([&] { reduce(ReduceKind::sum_exp, x, {0}, KeepDims::no, &center); }) ==
          "sum_exp: center of shape [2, 1] does not match the result [1, 3]");
  REQUIRE(error_of([&] {
            reduce(ReduceKind::sum, x, {1, -1});
          }) == "sum: dim -1 appears twice in [1, -1]");
}

TEST_CASE("arg_reduce finds the first occurrence, and NaN wins", "[core]") {
  const Array x = Array::from(Floats{1, 3, 3, -2, kNan, 9, kNan, 0, 5, -7, 5, -7}, {3, 4});
  for (const Array& layout : {x, awkward(x)}) {
    const ArgResult most = arg_reduce(ArgOp::max, layout, 1);
    REQUIRE(most.indices.to_vector<int64_t>() == Ints{1, 0, 0});
    REQUIRE(most.values.to_vector<float>()[2] == 5);
    REQUIRE(std::isnan(most.values.to_vector<float>()[1]));
    REQUIRE(arg_reduce(ArgOp::min, layout, -1).indices.to_vector<int64_t>() == Ints{3, 0, 1});
    REQUIRE(arg_reduce(ArgOp::max, layout, 0).indices.to_vector<int64_t>() == Ints{1, 1, 1, 1});
  }
  REQUIRE(arg_reduce(ArgOp::max, x, 0, KeepDims::yes).indices.shape() == Shape{1, 4});
  REQUIRE(arg_reduce(ArgOp::max, Array::full({}, 2), 0).indices.item<int64_t>() == 0);
}

TEST_CASE("arg_reduce matches a search in every dtype and along every dim", "[core]") {
  for (const DType dtype :
       {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    // Few different values over more than the lanes of a row, so that ties are many.
    const Array x = make(
        {3, 50, 40}, [](int64_t i) { return (i * 37 + i / 7) % 11; }, dtype);
    for (int dim = 0; dim < 3; ++dim) {
      for (const ArgOp op : {ArgOp::max, ArgOp::min}) {
        const ArgResult got = arg_reduce(op, x, dim);
        const Array rows = x.transpose(dim, -1).contiguous();
        const auto values = rows.to_vector<double>();
        const auto index = got.indices.unsqueeze(dim).transpose(dim, -1).to_vector<int64_t>();
        const size_t n = static_cast<size_t>(x.size(dim));
        for (size_t r = 0; r < index.size(); ++r) {
          const auto first = values.begin() + static_cast<std::ptrdiff_t>(r * n);
          const auto last = first + static_cast<std::ptrdiff_t>(n);
          const auto best =
              op == ArgOp::max ? std::max_element(first, last) : std::min_element(first, last);
          REQUIRE(index[r] == best - first);
        }
      }
    }
  }
}

TEST_CASE("cumulative sums and products run both ways", "[core]") {
  const Array x = Array::from(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto run = [](const Array& of, ScanOp op, Direction way, int dim) {
    return cumulative(op, way, of, dim).to_vector<float>();
  };
  for (const Array& layout : {x, awkward(x)}) {
    REQUIRE(run(layout, ScanOp::sum, Direction::forward, 1) == Floats{1, 3, 6, 4, 9, 15});
    REQUIRE(run(layout, ScanOp::sum, Direction::backward, 1) == Floats{6, 5, 3, 15, 11, 6});
    REQUIRE(run(layout, ScanOp::prod, Direction::forward, 0) == Floats{1, 2, 3, 4, 10, 18});
    REQUIRE(run(layout, ScanOp::prod, Direction::backward, -1) == Floats{6, 6, 3, 120, 30, 6});
  }
  REQUIRE(cumulative(ScanOp::sum, Direction::forward, Array::ones({300}, kBool), 0)
              .select(0, 299)
              .item<int64_t>() == 300);
  REQUIRE(cumulative(ScanOp::sum, Direction::forward, Array::ones({}), 0).item() == 1.0);
  REQUIRE(cumulative(ScanOp::sum, Direction::forward, Array::ones({0, 2}), 0).shape() ==
          Shape{0, 2});
}

TEST_CASE("a long running float sum is rounded once an element", "[core]") {
  const int64_t n = 100000;
  const Array x = Array::full({n}, 0.1f);
  const auto sums = cumulative(ScanOp::sum, Direction::forward, x, 0).to_vector<float>();
  for (int64_t i = 0; i < n; i += 997) {
    const auto exact = static_cast<float>(static_cast<double>(0.1f) * static_cast<double>(i + 1));
    // The double's own error is 2^-53 relative a step: far below the float's last place.
    REQUIRE(std::abs(sums[static_cast<size_t>(i)] - exact) <= exact * 0x1p-23f);
  }
}

TEST_CASE("sort is stable both ways and NaN is the largest", "[core]") {
  const Array x = Array::from(Floats{2, kNan, -1, kInf, 2, -0.0f, 0, -kInf, kNan}, {9});
  REQUIRE(sort(x).indices.to_vector<int64_t>() == Ints{7, 2, 5, 6, 0, 4, 3, 1, 8});
  REQUIRE(sort(x, 0, Order::descending).indices.to_vector<int64_t>() ==
          Ints{1, 8, 3, 0, 4, 5, 6, 2, 7});
  const auto values = sort(x).values.to_vector<float>();
  REQUIRE(values[0] == -kInf);
  REQUIRE(std::signbit(values[2]));  // the values themselves, not their keys
  REQUIRE(std::isnan(values[8]));
}

TEST_CASE("sort matches std::stable_sort in every dtype and along every dim", "[core]") {
  for (const DType dtype :
       {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const bool is_signed = dtype != kBool && dtype != kUInt8;
    const Array x = make(
        {4, 30, 20}, [&](int64_t i) { return (i * 7919) % 23 - (is_signed ? 11 : 0); }, dtype);
    for (int dim = 0; dim < 3; ++dim) {
      for (const Order order : {Order::ascending, Order::descending}) {
        const SortResult got = sort(x, dim, order);
        REQUIRE(same(sort(awkward(x), dim, order).indices, got.indices));
        const auto rows = x.transpose(dim, -1).to_vector<double>();
        const auto index = got.indices.transpose(dim, -1).to_vector<int64_t>();
        const auto values = got.values.transpose(dim, -1).to_vector<double>();
        const auto n = static_cast<size_t>(x.size(dim));
        for (size_t at = 0; at < rows.size(); at += n) {
          std::vector<int64_t> expected(n);
          std::iota(expected.begin(), expected.end(), 0);
          const auto before = [&](int64_t a, int64_t b) {
            const double u = rows[at + static_cast<size_t>(a)];
            const double v = rows[at + static_cast<size_t>(b)];
            return order == Order::ascending ? u < v : u > v;
          };
          std::stable_sort(expected.begin(), expected.end(), before);
          for (size_t i = 0; i < n; ++i) {
            REQUIRE(index[at + i] == expected[i]);
            REQUIRE(values[at + i] == rows[at + static_cast<size_t>(expected[i])]);
          }
        }
      }
    }
  }
}

TEST_CASE("sort keeps all 64 bits of integers and doubles", "[core]") {
  const int64_t big = int64_t{1} << 60;
  const Array x = Array::from(Ints{big + 1, -big, big, INT64_MIN, INT64_MAX}, {5});
  REQUIRE(sort(x).values.to_vector<int64_t>() == Ints{INT64_MIN, -big, big, big + 1, INT64_MAX});
}

TEST_CASE("sort matches std::stable_sort on long rows, of narrow and of wide ranges", "[core]") {
  constexpr int64_t kLength = 3001;
  const Array wide = noise({2, kLength}, kFloat64);
  const auto whole = [&](double scale) {
    return core::map<core::kernels::Mul>(wide, scale).to(kInt64);
  };
  const Array odd = wide.clone();
  for (const int64_t i : {5, 700, 2999})
    backend(kCpu).run(call::Fill{odd.select(0, 1).slice(0, i, i + 1), kNan});
  backend(kCpu).run(call::Fill{odd.select(0, 0).slice(0, 0, kLength, 7), -0.0});
  for (const Array& x : {wide, wide.to(kFloat32), wide.to(kBFloat16), whole(0x1p60), whole(100.0),
                         whole(0x1p60).to(kInt32), whole(60.0).to(kUInt8), odd.to(kFloat32),
                         Array::full({2, kLength}, 3.5)}) {
    INFO(name(x.dtype()));
    for (const Order order : {Order::ascending, Order::descending}) {
      const SortResult got = sort(x, 1, order);
      const auto index = got.indices.to_vector<int64_t>();
      const bool exact = x.dtype() == kInt64;  // whose 64 bits a double does not hold
      const auto rows = x.to(exact ? kInt64 : kFloat64).contiguous();
      const auto before = [&](int64_t row, int64_t a, int64_t b) {
        if (order == Order::descending) std::swap(a, b);
        if (exact) return rows.data<int64_t>()[row + a] < rows.data<int64_t>()[row + b];
        const double u = rows.data<double>()[row + a], v = rows.data<double>()[row + b];
        return u < v || (v != v && u == u);
      };
      for (const int64_t row : {int64_t{0}, kLength}) {
        std::vector<int64_t> expected(static_cast<size_t>(kLength));
        std::iota(expected.begin(), expected.end(), 0);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](int64_t a, int64_t b) { return before(row, a, b); });
        REQUIRE(std::equal(expected.begin(), expected.end(), index.begin() + row));
      }
      REQUIRE(same(got.values, gather(x, 1, got.indices)));
    }
  }
}

TEST_CASE("topk finds what sort puts first, ties and NaN included", "[core]") {
  const auto compare = [](const Array& x, int dim) {
    const int64_t size = x.size(dim);
    for (const Order order : {Order::ascending, Order::descending}) {
      const SortResult all = sort(x, dim, order);
      for (const int64_t k : {int64_t{1}, size / 20, size / 5, size / 2, size}) {
        const SortResult some = topk(x, k, dim, order);
        REQUIRE(some.values.to_vector<double>() == all.values.slice(dim, 0, k).to_vector<double>());
        REQUIRE(some.indices.to_vector<int64_t>() ==
                all.indices.slice(dim, 0, k).to_vector<int64_t>());
      }
    }
  };
  for (const DType dtype :
       {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kUInt8, kBool}) {
    INFO(dtype);
    std::vector<float> mixed(615);
    for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = static_cast<float>(i * i * 37 % 151);
    const Array x = Array::from(mixed, {3, 41, 5}).to(dtype);
    compare(x, 1);
    compare(x.transpose(1, 2), 2);
  }
  Array long_line = Array::empty({5000}, kFloat32);  // in rising order, every element displaces one
  for (int64_t i = 0; i < 5000; ++i) long_line.data<float>()[i] = static_cast<float>(i / 3);
  compare(long_line, 0);
  std::vector<float> values(100, 2.0f);
  for (size_t i = 0; i < values.size(); i += 7) values[i] = static_cast<float>(i % 3);
  compare(Array::from(values, {1, 100}), 1);
  values[40] = values[60] = std::numeric_limits<float>::quiet_NaN();
  const SortResult first = topk(Array::from(values, {100}), 3);
  REQUIRE(first.indices.to_vector<int64_t>() == Ints{40, 60, 1});
  const SortResult last = topk(Array::from(values, {100}), 2, 0, Order::ascending);
  REQUIRE(last.indices.to_vector<int64_t>() == Ints{0, 21});
}

TEST_CASE("topk takes the largest or the smallest", "[core]") {
  const Array x = Array::from(Floats{3, 1, 4, 1, 5, 9, 2, 6}, {2, 4});
  const SortResult most = topk(x, 2);
  REQUIRE(most.values.to_vector<float>() == Floats{4, 3, 9, 6});
  REQUIRE(most.indices.to_vector<int64_t>() == Ints{2, 0, 1, 3});
  REQUIRE(topk(x, 1, 0, Order::ascending).values.to_vector<float>() == Floats{3, 1, 2, 1});
  REQUIRE(topk(x, 0).values.shape() == Shape{2, 0});
  REQUIRE(error_of([&] { topk(x, 5); }) ==
          "topk: k = 5 is not within 0 and the size 4 of dim 1 of shape [2, 4]");
}

// Softmax of one row in long double.
std::vector<double> softmax_reference(const std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  long double sum = 0;
  for (const double v : x) sum += std::exp(static_cast<long double>(v) - top);
  std::vector<double> out;
  out.reserve(x.size());
  for (const double v : x) {
    out.push_back(static_cast<double>(std::exp(static_cast<long double>(v) - top) / sum));
  }
  return out;
}

TEST_CASE("softmax matches long double for short and long rows", "[core]") {
  for (const int64_t n : {1, 2, 7, 31, 32, 33, 100, 511, 513, 1000, 5000}) {
    const Array x = noise({n}, kFloat32, 9);
    const Array y = softmax(SoftmaxKind::softmax, x, 0);
    const Array log_y = softmax(SoftmaxKind::log_softmax, x, 0);
    const auto expected = softmax_reference(x.to_vector<double>());
    const auto got = y.to_vector<double>(), logs = log_y.to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) {
      // exp of a rounded difference of size 4 (4 * 2^-25), exp's ulp, the sum's lanes and the
      // scaling: below 16 * 2^-24.
      REQUIRE(std::abs(got[i] - expected[i]) <= 0x1p-20 * expected[i]);
      // Two roundings of numbers below 16.
      REQUIRE(std::abs(logs[i] - std::log(expected[i])) <= 0x1p-19);
    }
    const auto doubles = softmax(SoftmaxKind::softmax, x.to(kFloat64), 0).to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(std::abs(doubles[i] - expected[i]) <= 0x1p-48 * expected[i]);
    }
  }
}

TEST_CASE("softmax gives the same bits along every dim and in every layout", "[core]") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Array x = noise({5, 70, 37}, dtype, 2), g = noise({5, 70, 37}, dtype, 3);
    for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
      for (int dim = 0; dim < 3; ++dim) {
        const Array rows = x.transpose(dim, -1).contiguous();
        const Array y = softmax(kind, x, dim);
        REQUIRE(same(y.transpose(dim, -1).contiguous(), softmax(kind, rows, -1)));
        REQUIRE(same(softmax(kind, awkward(x), dim), y));
        const Array gradient = softmax_backward(kind, g, y, dim);
        REQUIRE(same(softmax_backward(kind, awkward(g), awkward(y), dim), gradient));
        const Array by_rows = softmax_backward(kind, g.transpose(dim, -1).contiguous(),
                                               y.transpose(dim, -1).contiguous(), -1);
        REQUIRE(same(gradient.transpose(dim, -1).contiguous(), by_rows));
      }
    }
  }
}

TEST_CASE("softmax treats infinities and NaN as PyTorch does", "[core]") {
  const auto row = [](const Floats& x, SoftmaxKind kind = SoftmaxKind::softmax) {
    return softmax(kind, Array::from(x, {static_cast<int64_t>(x.size())}), 0).to_vector<float>();
  };
  REQUIRE(row({-kInf, 0, 0}) == Floats{0, 0.5f, 0.5f});
  REQUIRE(row({-kInf, 0}, SoftmaxKind::log_softmax) == Floats{-kInf, 0});
  for (const Floats& bad : {Floats{-kInf, -kInf}, Floats{kInf, 0}, Floats{kNan, 0, 1}}) {
    for (const float y : row(bad)) REQUIRE(std::isnan(y));
  }
  // A NaN anywhere reaches the whole row, also past the lanes.
  for (const size_t at : {0u, 5u, 40u, 99u}) {
    Floats x(100, 1.0f);
    x[at] = kNan;
    for (const float y : row(x)) REQUIRE(std::isnan(y));
  }
  REQUIRE(row({1000, 1000}) == Floats{0.5f, 0.5f});
}

TEST_CASE("softmax's gradient matches its definition", "[core]") {
  const int64_t n = 600;
  const Array x = noise({n}, kFloat64, 4), g = noise({n}, kFloat64, 5);
  for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const Array y = softmax(kind, x, 0);
    const auto got = softmax_backward(kind, g, y, 0).to_vector<double>();
    const auto p = softmax(SoftmaxKind::softmax, x, 0).to_vector<double>();
    const auto v = g.to_vector<double>();
    const bool log = kind == SoftmaxKind::log_softmax;
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += log ? v[i] : v[i] * p[i];
    for (size_t i = 0; i < v.size(); ++i) {
      const double expected = log ? v[i] - p[i] * sum : p[i] * (v[i] - sum);
      REQUIRE(std::abs(got[i] - expected) <= 1e-13);  // 600 terms of size 2 at 2^-53
    }
  }
}

}  // namespace
