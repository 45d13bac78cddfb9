#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

Rows composed_rows() {
  const Domain positive{0.5, 2.0};
  return {
      one(
          "entr", entr, [](double x) { return -x * std::log(x); }, positive),
      one("ndtr", ndtr, [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2.0; }, {}),
      two(
          "xlog1py", static_cast<Tensor (*)(const Tensor&, const Tensor&)>(xlog1py),
          [](double x, double y) { return x * std::log1p(y); }, positive, positive),
      two(
          "logaddexp2", logaddexp2,
          [](double a, double b) { return std::log2(std::exp2(a) + std::exp2(b)); }, positive,
          positive),
      two(
          "ldexp", ldexp, [](double x, double n) { return x * std::exp2(n); }, positive, positive),
      sized({"trapezoid", {{{2, 4}}}, [](const Tensors& x) { return trapezoid(x[0], 0.3, 1); }}),
      sized({"trapezoid",
             {{{2, 4}}, {{4}}},
             [](const Tensors& x) { return trapezoid(x[0], x[1], -1); }}),
      sized({"gradient",
             {{{3, 4}}},
             [](const Tensors& x) { return gradient(x[0], {.spacing = {0.3}, .edge_order = 2}); }}),
      sized({"gradient (places)",
             {{{3, 4}}},
             [](const Tensors& x) {
               const Tensor places =
                   square(arange(x[0].size(1), {.dtype = kFloat64, .device = x[0].device()}) + 1.0);
               return gradient(x[0], {.coordinates = {places}, .dim = {1}});
             }}),
      sized({"cumulative_trapezoid",
             {{{4, 2}}},
             [](const Tensors& x) { return cumulative_trapezoid(x[0], 0.3, 0); }}),
      sized({"cumulative_trapezoid",
             {{{2, 4}}, {{2, 4}}},
             [](const Tensors& x) { return cumulative_trapezoid(x[0], x[1]); }}),
      sized({"cov", {{{3, 5}}}, [](const Tensors& x) { return cov(x[0]); }}),
      sized({"corrcoef", {{{3, 5}}}, corrcoef}),
      sized({"vecdot", {{{2, 3}}, {{3}}}, [](const Tensors& x) { return vecdot(x[0], x[1]); }}),
      apart({"pdist", {{{4, 3}}}, [](const Tensors& x) { return pdist(x[0], 3.0); }}),
      sized({"renorm", {{{2, 3}}}, [](const Tensors& x) { return renorm(x[0], 2.0, 0, 0.5); }}),
      apart({"tensorinv", {{{2, 3, 6}}}, [](const Tensors& x) { return tensorinv(x[0]); }}),
      apart({"tensorsolve",
             {{{2, 3, 6}}, {{2, 3}}},
             [](const Tensors& x) { return tensorsolve(x[0], x[1]); }}),
  };
}

}  // namespace

TEST_CASE("operations made of others: layouts and derivatives") { check_rows(composed_rows()); }

}  // namespace hero::test
