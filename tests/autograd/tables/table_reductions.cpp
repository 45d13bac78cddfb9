#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

namespace hero::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const char* const kConstant = "equal elements have no standard deviation to differentiate";

// One value a row of a [2, 3] matrix: f of its elements.
std::function<Values(const Tensors&)> of_rows(std::function<double(const Values&)> f) {
  return [f = std::move(f)](const Tensors& x) {
    Values results;
    const Values all = x[0].to_vector<double>();
    for (int64_t row = 0; row < x[0].size(0); ++row) {
      const auto begin = all.begin() + row * x[0].size(1);
      results.push_back(f(Values(begin, begin + x[0].size(1))));
    }
    return results;
  };
}

OpRow rows_of(const char* name, Call call, std::function<double(const Values&)> f) {
  OpRow row{name, {{{2, 3}}}, std::move(call)};
  row.naive = of_rows(std::move(f));
  return row;
}

double total(const Values& x) {
  double sum = 0.0;
  for (double value : x) sum += value;
  return sum;
}

double spread(const Values& x, double divisor) {
  const double mean = total(x) / static_cast<double>(x.size());
  double sum = 0.0;
  for (double value : x) sum += (value - mean) * (value - mean);
  return sum / divisor;
}

double power_norm(const Values& x, double p) {
  double sum = 0.0;
  for (double value : x) sum += std::pow(std::fabs(value), p);
  return std::pow(sum, 1.0 / p);
}

Rows sum_rows() {
  return {
      {"sum", {{{2, 3}}}, [](const Tensors& x) { return sum(x[0]); }},
      {"sum",
       {{{2, 3, 2}}},
       [](const Tensors& x) {
         return sum(x[0], {0, -1}, true);
       }},
      rows_of(
          "sum", [](const Tensors& x) { return sum(x[0], {1}); }, total),
      {"mean", {{{2, 3, 2}}}, [](const Tensors& x) { return mean(x[0], {1}); }},
      rows_of(
          "mean", [](const Tensors& x) { return mean(x[0], {-1}); },
          [](const Values& x) { return total(x) / static_cast<double>(x.size()); }),
      {"sum_to",
       {{{2, 3, 2}}},
       [](const Tensors& x) {
         return sum_to(x[0], {x[0].size(1), 1});
       }},
      {"prod", {{{2, 3}}}, [](const Tensors& x) { return prod(x[0]); }},
      {"prod",
       {{{2, 3, 2}}},
       [](const Tensors& x) {
         return prod(x[0], {0, 2}, true);
       }},
      rows_of(
          "prod", [](const Tensors& x) { return prod(x[0], {1}); },
          [](const Values& x) { return x.size() == 3 ? x[0] * x[1] * x[2] : x[0]; }),
      rows_of(
          "logsumexp", [](const Tensors& x) { return logsumexp(x[0], {1}); },
          [](const Values& x) {
            double sum = 0.0;
            for (double value : x) sum += std::exp(value);
            return std::log(sum);
          }),
      {"logsumexp",
       {{{2, 3, 2}}},
       [](const Tensors& x) {
         return logsumexp(x[0], {0, 2}, true);
       }},
      {.name = "any",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return any(x[0] > 0, {1}); },
       .differentiable = false},
      {.name = "all",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return all(x[0] > 0, {0}, true); },
       .differentiable = false},
  };
}

// Along dimension 1 the broadcast layout repeats rows, not elements of a row: no ties.
Rows extreme_rows() {
  const auto largest = [](const Values& x) { return *std::max_element(x.begin(), x.end()); };
  const auto smallest = [](const Values& x) { return *std::min_element(x.begin(), x.end()); };
  const auto place = [](const Values& x) {
    return static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin());
  };
  const std::map<Layout, std::string> all = {{Layout::broadcast, kTies}, {Layout::empty, kNothing}};
  Rows rows = {
      rows_of(
          "amax", [](const Tensors& x) { return amax(x[0], {1}); }, largest),
      rows_of(
          "amin", [](const Tensors& x) { return amin(x[0], {-1}, true); }, smallest),
      {"amax",
       {{{3, 2, 2}}},
       [](const Tensors& x) {
         return amax(x[0], {1, 2});
       }},
      rows_of(
          "max", [](const Tensors& x) { return max(x[0], 1); }, largest),
      rows_of(
          "min", [](const Tensors& x) { return min(x[0], 1, true); }, smallest),
      {.name = "max",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return max(x[0]); },
       .skip = all},
      {.name = "min",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return min(x[0]); },
       .skip = all},
      rows_of(
          "argmax", [](const Tensors& x) { return argmax(x[0], 1); }, place),
      {.name = "argmin",
       .inputs = {{{2, 3}}},
       .call = [](const Tensors& x) { return argmin(x[0], {}, true); },
       .skip = {{Layout::empty, kNothing}}},
  };
  for (size_t i = rows.size() - 2; i < rows.size(); ++i) rows[i].differentiable = false;
  return rows;
}

Rows spread_rows() {
  const std::map<Layout, std::string> single = {{Layout::single, kConstant}};
  Rows rows = {
      rows_of(
          "var", [](const Tensors& x) { return var(x[0], {.dims = {1}, .unbiased = false}); },
          [](const Values& x) { return spread(x, static_cast<double>(x.size())); }),
      {"var",
       {{{2, 3, 2}}},
       [](const Tensors& x) {
         return var(x[0], {.dims = {1, 2}, .keepdim = true});
       }},
      rows_of(
          "std", [](const Tensors& x) { return std(x[0], {.dims = {1}}); },
          [](const Values& x) {
            return std::sqrt(spread(x, static_cast<double>(x.size()) - 1.0));
          }),
      {"std_mean",
       {{{3, 2, 2}}},
       [](const Tensors& x) {
         const StdMean result = std_mean(x[0], {.dims = {1, 2}, .unbiased = false});
         return Tensors{result.std, result.mean};
       }},
  };
  for (size_t i = 1; i < rows.size(); ++i) rows[i].skip = single;
  return rows;
}

Rows norm_rows() {
  const Domain apart{-2.0, 2.0, {0.0}};
  Rows rows = {
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 2.0, {1}); },
          [](const Values& x) { return power_norm(x, 2.0); }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 1.0, {1}); },
          [](const Values& x) { return power_norm(x, 1.0); }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 3.0, {1}); },
          [](const Values& x) { return power_norm(x, 3.0); }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 1.5, {1}, true); },
          [](const Values& x) { return power_norm(x, 1.5); }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 0.5, {1}); },
          [](const Values& x) { return power_norm(x, 0.5); }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], kInfinity, {1}); },
          [](const Values& x) {
            double most = 0.0;
            for (double value : x) most = std::fmax(most, std::fabs(value));
            return most;
          }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], -kInfinity, {1}); },
          [](const Values& x) {
            double least = kInfinity;
            for (double value : x) least = std::fmin(least, std::fabs(value));
            return least;
          }),
      rows_of(
          "norm", [](const Tensors& x) { return norm(x[0], 0.0, {1}); },
          [](const Values& x) { return static_cast<double>(x.size()); }),
      {"norm", {{{2, 3}}}, [](const Tensors& x) { return norm(x[0]); }},
  };
  for (OpRow& row : rows) row.inputs[0].domain = apart;
  rows.back().skip = {{Layout::empty, "the norm of nothing is 0, where it has a kink"}};
  return rows;
}

Rows scan_rows() {
  const auto running = [](const Tensors& x) {
    Values values = x[0].to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<size_t>(x[0].size(1)) != 0) values[i] += values[i - 1];
    }
    return values;
  };
  OpRow cumsum_row{"cumsum", {{{2, 3}}}, [](const Tensors& x) { return cumsum(x[0], 1); }};
  cumsum_row.naive = running;
  const std::map<Layout, std::string> ties = {{Layout::broadcast, kTies}};
  return {
      cumsum_row,
      {"cumsum", {{{5, 2}}}, [](const Tensors& x) { return cumsum(x[0], 0); }},
      {"cumprod", {{{2, 5}}}, [](const Tensors& x) { return cumprod(x[0], -1); }},
      {"cumprod", {{{7, 2}}}, [](const Tensors& x) { return cumprod(x[0], 0); }},
      {"sort", {{{2, 5}}}, [](const Tensors& x) { return sort(x[0]); }},
      {.name = "sort",
       .inputs = {{{5, 2}}},
       .call = [](const Tensors& x) { return sort(x[0], 0, true); },
       .skip = ties},
      {.name = "argsort",
       .inputs = {{{2, 5}}},
       .call = [](const Tensors& x) { return argsort(x[0], -1, true); },
       .differentiable = false},
      {"topk",
       {{{2, 5}}},
       [](const Tensors& x) { return topk(x[0], std::min<int64_t>(3, x[0].size(1))); }},
      {.name = "topk",
       .inputs = {{{5, 2}}},
       .call =
           [](const Tensors& x) {
             return topk(x[0], std::min<int64_t>(2, x[0].size(0)), 0, false);
           },
       .skip = ties},
  };
}

}  // namespace

Rows reduction_rows() {
  Rows rows = sum_rows();
  for (const Rows& part : {extreme_rows(), spread_rows(), norm_rows(), scan_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("reductions, running sums and sorting: values, layouts and derivatives") {
  check_rows(reduction_rows());
}

}  // namespace hero::test
