// Running products, order statistics and counts of more than a few elements, beside loops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>

using namespace hero;

namespace {

// Factors around one, a zero here and there where `zeros`.
Tensor factors(const Shape& shape, DType dtype, bool zeros) {
  Tensor x = Tensor(test::noise(shape, dtype, 3)) * 0.05 + 1.0;
  if (zeros) x = where(Tensor(test::noise(shape, dtype, 4)) > 1.98, 0.0, x);
  return x.detach();
}

// dL/dx of running products along a line, as a sum over all pairs of positions.
std::vector<double> running_gradient(const std::vector<double>& x, const std::vector<double>& g) {
  std::vector<double> result(x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    double others = 1.0;
    for (size_t k = 0; k < i; ++k) others *= x[k];
    for (size_t j = i; j < x.size(); ++j) {
      if (j > i) others *= x[j];
      result[i] += g[j] * others;
    }
  }
  return result;
}

void running_products(const Shape& shape, int dim, DType dtype, bool zeros) {
  const Tensor x = factors(shape, dtype, zeros), g = Tensor(test::noise(shape, dtype, 5));
  x.requires_grad_();
  const Tensor got = grad({cumprod(x, dim)}, {x}, {.grad_outputs = {g}})[0];
  const auto line = [&](const Tensor& t, int64_t r) {
    const Tensor rows = t.detach().transpose(dim, -1).reshape({-1, shape[dim]});
    return rows.select(0, r).to_vector<double>();
  };
  for (int64_t r = 0; r < x.numel() / shape[dim]; r += 5) {
    const auto expected = running_gradient(line(x, r), line(g, r)), values = line(got, r);
    for (size_t i = 0; i < values.size(); ++i) {
      CAPTURE(shape, dim, zeros, r, i);
      const double unit = dtype == kFloat32 ? 1e-5 : 1e-12;
      REQUIRE(std::abs(values[i] - expected[i]) <= unit * (10.0 + std::abs(expected[i])));
    }
  }
}

}  // namespace

TEST_CASE("gradients of long running products are sums over all pairs, zeros among them or not") {
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    for (const bool zeros : {false, true}) {
      for (const DType dtype : {kFloat32, kFloat64}) {
        running_products({11, 130}, 1, dtype, zeros);  // rows
        running_products({130, 11}, 0, dtype, zeros);  // few columns
        running_products({90, 41}, 0, dtype, zeros);   // columns
        running_products({3, 70, 4, 9}, 1, dtype, zeros);
      }
    }
  }
}

TEST_CASE("second derivatives of long running products are those of their graph") {
  const Tensor x = factors({2, 40}, kFloat64, true);
  x.requires_grad_();
  const Tensor g = Tensor(test::noise({2, 40}, kFloat64, 5)),
               h = Tensor(test::noise({2, 40}, kFloat64, 6));
  const auto first = [&](const Tensor& at, bool graph) {
    return grad({cumprod(at, 1)}, {at}, {.grad_outputs = {g}, .create_graph = graph})[0];
  };
  const Tensor second = grad(sum(first(x, true) * h), x);
  // The derivative along one direction, by differences of first derivatives.
  const Tensor direction = Tensor(test::noise({2, 40}, kFloat64, 7));
  const double step = 1e-6;
  const auto moved = [&](double by) {
    const Tensor at = (x.detach() + direction * by).detach();
    at.requires_grad_();
    return sum(first(at, false) * h).item();
  };
  const double expected = (moved(step) - moved(-step)) / (2 * step);
  CHECK(std::abs(sum(second * direction).item() - expected) <= 1e-5 * (1 + std::abs(expected)));
}

TEST_CASE("a product's gradient has the same bits with a graph and without one") {
  for (const Shape& shape : {Shape{1}, {2}, {3}, {700}, {5, 1}, {6, 33}, {4, 5, 70}}) {
    for (const bool zeros : {false, true}) {
      const Tensor x = factors(shape, kFloat32, zeros);
      x.requires_grad_();
      const int last = x.ndim() - 1;
      const Tensor with = grad(sum(prod(x, {last})), x, {.create_graph = true});
      CHECK(test::same(grad(sum(prod(x, {last})), x).array(), with.detach().array()));
      const Tensor first = grad(sum(prod(x, {0})), x, {.create_graph = true});
      CHECK(test::same(grad(sum(prod(x, {0})), x).array(), first.detach().array()));
    }
  }
}

TEST_CASE("order statistics give their gradient to the elements that they are") {
  const Shape shape{7, 90};
  const Tensor x = floor(Tensor(test::noise(shape, kFloat32, 8)) * 20.0).detach();
  x.requires_grad_();
  const Tensor g = Tensor(test::noise({7}, kFloat32, 9));
  const auto check_one = [&](const ValuesIndices& found) {
    const Tensor expected = scatter(zeros(shape), 1, unsqueeze(found.indices, 1), unsqueeze(g, 1));
    CHECK(grad({found.values}, {x}, {.grad_outputs = {g}})[0].equal(expected));
    CHECK(found.values.equal(squeeze(gather(x, 1, unsqueeze(found.indices, 1)), 1)));
  };
  const ValuesIndices sorted = sort(x.detach(), 1);
  for (const int64_t k : {1, 2, 20, 23, 45, 89, 90}) {
    const ValuesIndices found = kthvalue(x, k, 1);
    CHECK(found.values.equal(sorted.values.select(1, k - 1)));
    CHECK(found.indices.equal(sorted.indices.select(1, k - 1)));
    check_one(found);
  }
  check_one(median(x, 1));
  check_one(mode(x, 1));
  const Tensor share = quantile(x, 0.375, {.dim = 1});
  const double rank = 0.375 * 89, part = rank - std::floor(rank);
  const auto at = [&](double place) {
    return unsqueeze(sorted.indices.select(1, static_cast<int64_t>(place)), 1);
  };
  const Tensor below = scatter(zeros(shape), 1, at(std::floor(rank)), unsqueeze(g * (1 - part), 1));
  const Tensor both = scatter_add(below, 1, at(std::ceil(rank)), unsqueeze(g * part, 1));
  CHECK(allclose(grad({share}, {x}, {.grad_outputs = {g}})[0], both));
}

TEST_CASE("counts of many numbers are those of a loop") {
  const int64_t n = 300'001;
  for (const int threads : {1, 3}) {
    const ThreadLimit limit(threads);
    for (const DType dtype : {kFloat32, kFloat64, kFloat16}) {
      const core::Array made = test::noise({n}, kFloat64, 10);
      double* value = made.data<double>();
      value[7] = std::numeric_limits<double>::quiet_NaN();
      value[8] = std::numeric_limits<double>::infinity();
      value[9] = 0.1;
      const Tensor x = Tensor(made).to(dtype);
      for (const auto& [bins, low, high] :
           {std::tuple{10, -1.0, 1.0}, {7, 0.1, 1.9}, {100'000, -2.0, 2.0}}) {
        std::vector<double> expected(static_cast<size_t>(bins), 0.0);
        const bool narrow = dtype != kFloat64;
        const double from = narrow ? static_cast<float>(low) : low;
        const double to = narrow ? static_cast<float>(high) : high;
        for (const double v : x.to_vector<double>()) {
          if (!(v >= from && v <= to)) continue;
          const double bin = std::floor((v - low) * (bins / (high - low)));
          ++expected[static_cast<size_t>(std::clamp(bin, 0.0, bins - 1.0))];
        }
        CAPTURE(bins, threads);
        CHECK(histc(x, bins, low, high).equal(tensor(expected).to(dtype)));
      }
    }
    const Tensor numbers = floor(abs(Tensor(test::noise({n}, kFloat64, 11))) * 50.0).to(kInt64);
    std::vector<int64_t> expected(120, 0);
    for (const int64_t number : numbers.to_vector<int64_t>())
      ++expected[static_cast<size_t>(number)];
    CHECK(bincount(numbers, {}, 120).to_vector<int64_t>() == expected);
    CHECK(bincount(numbers.to(kInt32).reshape({n, 1}).expand({n, 2}).select(1, 1), {}, 120)
              .to_vector<int64_t>() == expected);
  }
  CHECK(bincount(zeros({0}, {.dtype = kInt64})).numel() == 0);
  CHECK(histc(zeros({0}), 3, 0.0, 1.0).to_vector<double>() == std::vector<double>{0, 0, 0});
}

TEST_CASE("running extremes are the last best so far, in which a NaN beats all numbers") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64, kUInt8}) {
    for (const auto& [shape, dim] : {std::pair{Shape{300}, 0},
                                     {Shape{9, 130}, 1},
                                     {Shape{130, 20}, 0},
                                     {Shape{3, 40, 5}, 1}}) {
      const core::Array made = test::make(
          shape,
          [floats = is_floating(dtype)](int64_t i) {
            const auto h = (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u >> 40;
            const bool late = floats && h % 61 == 0 && i % 5 != 0;
            return late ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(h % 30);
          },
          dtype);
      const Tensor x(made), lines = x.transpose(dim, -1).contiguous();
      const auto value = lines.to(kFloat64).to_vector<double>();
      const auto n = static_cast<size_t>(shape[dim]);
      for (const bool largest : {true, false}) {
        std::vector<int64_t> expected;
        for (size_t i = 0, best = 0; i < value.size(); ++i) {
          const double a = value[best], b = value[i];
          const bool stays = (largest ? a > b : a < b) || (std::isnan(a) && !std::isnan(b));
          if (i % n == 0 || !stays) best = i;
          expected.push_back(static_cast<int64_t>(best % n));
        }
        const ValuesIndices found = largest ? cummax(x, dim) : cummin(x, dim);
        CAPTURE(shape, dim, largest);
        CHECK(found.indices.transpose(dim, -1).to_vector<int64_t>() == expected);
        CHECK(test::same(found.values.array(), gather(x, dim, found.indices).array()));
      }
    }
  }
}

TEST_CASE("gradients of running extremes go back to where the values came from") {
  const Tensor x = floor(Tensor(test::noise({6, 70}, kFloat64, 12)) * 9.0).detach();
  const Tensor g = Tensor(test::noise({6, 70}, kFloat64, 13));
  x.requires_grad_();
  for (const int dim : {0, 1}) {
    const ValuesIndices found = cummin(x, dim);
    const Tensor expected = scatter_add(zeros({6, 70}, {.dtype = kFloat64}), dim, found.indices, g);
    CHECK(grad({found.values}, {x}, {.grad_outputs = {g}})[0].equal(expected));
  }
}
