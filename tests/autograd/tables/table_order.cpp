#include <algorithm>
#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// Of at least one element; `each` gives the value of one row of the last dimension. Equal elements
// have no derivative, so rows of a broadcast input make none.
template <class F>
OpRow by_rows(const char* name, const Shape& shape, F f, double (*each)(Values)) {
  OpRow row = of(name, shape, f);
  row.skip = {{Layout::empty, kNothing}, {Layout::broadcast, kTies}};
  row.naive = [each](const Tensors& x) {
    const Values values = x[0].to_vector<double>();
    const auto width = x[0].size(-1);
    Values results;
    for (int64_t at = 0; at < x[0].numel(); at += width) {
      results.push_back(each(Values(values.begin() + at, values.begin() + at + width)));
    }
    return results;
  };
  return row;
}

double ordered(Values row, size_t at) {
  std::sort(row.begin(), row.end());
  return row[std::min(at, row.size() - 1)];
}

double share_of(Values row, double q) {
  std::sort(row.begin(), row.end());
  const double rank = q * static_cast<double>(row.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const auto above = static_cast<size_t>(std::ceil(rank));
  return row[below] + (rank - static_cast<double>(below)) * (row[above] - row[below]);
}

Rows statistic_rows() {
  return {
      by_rows(
          "median", {3, 5}, [](const Tensor& x) { return median(x, 1); },
          [](Values row) { return ordered(row, (row.size() - 1) / 2); }),
      by_rows(
          "nanmedian", {3, 4}, [](const Tensor& x) { return nanmedian(x, -1); },
          [](Values row) { return ordered(row, (row.size() - 1) / 2); }),
      by_rows(
          "median (of all)", {7}, [](const Tensor& x) { return median(x); },
          [](Values row) { return ordered(row, (row.size() - 1) / 2); }),
      by_rows(
          "nanmedian (of all)", {7}, [](const Tensor& x) { return nanmedian(x); },
          [](Values row) { return ordered(row, (row.size() - 1) / 2); }),
      by_rows(
          "kthvalue", {3, 5}, [](const Tensor& x) { return kthvalue(x, (x.size(1) + 1) / 2, 1); },
          [](Values row) { return ordered(row, (row.size() - 1) / 2); }),
      by_rows(
          "quantile", {3, 5}, [](const Tensor& x) { return quantile(x, 0.3, {.dim = 1}); },
          [](Values row) { return share_of(row, 0.3); }),
      by_rows(
          "nanquantile", {3, 5},
          [](const Tensor& x) { return nanquantile(x, 0.7, {.dim = 1, .keepdim = true}); },
          [](Values row) { return share_of(row, 0.7); }),
      by_rows(
          "mode", {3, 5}, [](const Tensor& x) { return mode(x, 1); },
          [](Values row) { return ordered(row, 0); }),
      by_rows(
          "msort", {1}, [](const Tensor& x) { return msort(x); },
          [](Values row) { return row[0]; }),
      by_rows(
          "aminmax", {3, 5},
          [](const Tensor& x) {
            const MinMax result = aminmax(x, 1);
            return Tensors{result.min, result.max};
          },
          [](Values row) { return ordered(row, 0); }),
  };
}

// Running: every element of a row of the last dimension from those up to it.
template <class F>
OpRow running(const char* name, const Shape& shape, F f, double (*so_far)(const Values&)) {
  OpRow row = of(name, shape, f);
  row.naive = [so_far](const Tensors& x) {
    const Values values = x[0].to_vector<double>();
    const auto width = std::max<int64_t>(x[0].size(-1), 1);
    Values results;
    for (int64_t at = 0; at < x[0].numel(); ++at) {
      const auto from = values.begin() + at / width * width;
      results.push_back(so_far(Values(from, values.begin() + at + 1)));
    }
    return results;
  };
  return row;
}

Rows running_rows() {
  OpRow highest = running(
      "cummax", {3, 6}, [](const Tensor& x) { return cummax(x, 1); },
      [](const Values& v) { return *std::max_element(v.begin(), v.end()); });
  OpRow lowest = running(
      "cummin", {3, 6}, [](const Tensor& x) { return cummin(x, 1); },
      [](const Values& v) { return *std::min_element(v.begin(), v.end()); });
  return {
      highest,
      lowest,
      running(
          "logcumsumexp", {3, 6}, [](const Tensor& x) { return logcumsumexp(x, -1); },
          [](const Values& v) {
            double total = 0.0;
            for (double value : v) total += std::exp(value);
            return std::log(total);
          }),
      of("logcumsumexp (first dim)", {5, 2}, [](const Tensor& x) { return logcumsumexp(x, 0); }),
      of("diff", {2, 5}, [](const Tensor& x) { return diff(x); }),
      of("diff (twice)", {5, 2}, [](const Tensor& x) { return diff(x, 2, 0); }),
      running(
          "cumsum (dtype)", {2, 3}, [](const Tensor& x) { return cumsum(x, 1, kFloat64); },
          [](const Values& v) {
            double total = 0.0;
            for (double value : v) total += value;
            return total;
          }),
  };
}

// x with NaN where it is positive.
Tensor with_holes(const Tensor& x) {
  return where(x > 0, std::numeric_limits<double>::quiet_NaN(), x);
}

Rows further_reduction_rows() {
  return {
      {"nansum",
       {{{3, 4}, kAwayFromZero}},
       [](const Tensors& x) { return nansum(with_holes(x[0]), {1}); }},
      {.name = "nanmean",
       .inputs = {{{3, 4}, {-2.0, 0.5, {0.0}}}},
       .call = [](const Tensors& x) { return nanmean(with_holes(x[0])); },
       .skip = {{Layout::empty, kNothing}, {Layout::single, "a mean of NaN has no derivative"}},
       .naive =
           [](const Tensors& x) {
             double total = 0.0, count = 0.0;
             for (double v : x[0].to_vector<double>()) {
               if (v > 0) continue;
               total += v;
               count += 1.0;
             }
             return Values{total / count};
           }},
      constant(of("count_nonzero", {3, 4}, [](const Tensor& x) { return count_nonzero(x > 0); })),
      {.name = "var_mean",
       .inputs = {{{3, 4}}},
       .call =
           [](const Tensors& x) {
             const VarMean result = var_mean(x[0], {.unbiased = false});
             return Tensors{result.var, result.mean};
           },
       .skip = {{Layout::empty, kNothing}}},
      {"dist",
       {{{3, 4}, {-2.0, -1.0}}, {{3, 4}, {0.0, 1.0}}},
       [](const Tensors& x) { return x[0].dist(x[1], 3.0); }},
      of("sum (dtype)", {2, 3}, [](const Tensor& x) { return sum(x, kFloat64); }),
      of("mean (dtype)", {2, 3}, [](const Tensor& x) { return mean(x, {1}, true, kFloat64); }),
      of("prod (dtype)", {2, 3}, [](const Tensor& x) { return prod(x, kFloat64); }),
      of("cumprod (dtype)", {2, 3}, [](const Tensor& x) { return cumprod(x, 1, kFloat64); }),
      of("softmax (dtype)", {2, 3}, [](const Tensor& x) { return softmax(x, 1, kFloat64); }),
      of("log_softmax (dtype)", {2, 3},
         [](const Tensor& x) { return log_softmax(x, 1, kFloat64); }),
      of("var (correction)", {2, 5},
         [](const Tensor& x) { return var(x, {.dims = {1}, .correction = 0.5}); }),
  };
}

}  // namespace

Rows order_rows() {
  Rows rows = statistic_rows();
  for (const Rows& part : {running_rows(), further_reduction_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("order statistics and running functions: values, layouts and derivatives") {
  check_rows(order_rows());
}

TEST_CASE("reductions convert to a dtype before they add up") {
  const Tensor x = full({3}, 100, {.dtype = kUInt8});
  CHECK(sum(x, kUInt8).item<int>() == 44);
  CHECK(sum(x, kFloat32).dtype() == kFloat32);
  CHECK(mean(x, kFloat64).item() == 100.0);
  CHECK(prod(tensor({2, 3}), kFloat32).dtype() == kFloat32);
  CHECK(softmax(zeros({2}, {.dtype = kFloat16}), 0, kFloat32).dtype() == kFloat32);
  CHECK(cumsum(tensor({true, true}), 0, kInt32).dtype() == kInt32);
}

}  // namespace hero::test
