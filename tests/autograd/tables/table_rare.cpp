#include <cmath>
#include <numbers>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/functions/map.h>

namespace hero::test {

namespace {

// The mean of f at the middles of 4000 parts of [from, to].
template <class F>
double mean_of(F f, double from, double to) {
  const int parts = 4000;
  double sum = 0.0;
  for (int i = 0; i < parts; ++i) sum += f(from + (to - from) * (i + 0.5) / parts);
  return sum / parts;
}

// Bessel's integrals over half a turn, which equal parts integrate exactly.
double j(int order, double x) {
  return mean_of([=](double t) { return std::cos(order * t - x * std::sin(t)); }, 0.0,
                 std::numbers::pi);
}
double modified(int order, double x) {
  return mean_of([=](double t) { return std::exp(x * std::cos(t)) * std::cos(order * t); }, 0.0,
                 std::numbers::pi);
}

// P(a, x) by its power series.
double lower_gamma(double a, double x) {
  double term = std::exp(a * std::log(x) - x - std::lgamma(a + 1.0)), sum = term;
  for (int n = 1; n < 200; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum;
}

double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2.0; }

// Where normal_below() is p, by halving.
double normal_quantile(double p) {
  double low = -9.0, high = 9.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2.0;
    (normal_below(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2.0;
}

Rows rare_function_rows() {
  return {
      one("i0", i0, [](double x) { return modified(0, x); }),
      one(
          "i0e", i0e, [](double x) { return modified(0, x) * std::exp(-std::fabs(x)); },
          kAwayFromZero),
      one("i1", i1, [](double x) { return modified(1, x); }),
      one(
          "i1e", i1e, [](double x) { return modified(1, x) * std::exp(-std::fabs(x)); },
          kAwayFromZero),
      one("bessel_j0", bessel_j0, [](double x) { return j(0, x); }),
      one(
          "bessel_j0", [](const Tensor& x) { return bessel_j0(x * 8.0); },
          [](double x) { return j(0, 8.0 * x); }),
      one("bessel_j1", bessel_j1, [](double x) { return j(1, x); }),
      one(
          "bessel_j1", [](const Tensor& x) { return bessel_j1(x * 8.0); },
          [](double x) { return j(1, 8.0 * x); }),
      one(
          "bessel_y0", bessel_y0, [](double x) { return ::y0(x); }, kPositiveTo3),
      one(
          "bessel_y1", bessel_y1, [](double x) { return ::y1(x); }, kPositiveTo3),
      one("erfcx", erfcx, [](double x) { return std::exp(x * x) * std::erfc(x); }),
      one("log_ndtr", log_ndtr, [](double x) { return std::log(normal_below(x)); }),
      one("ndtri", ndtri, normal_quantile, {0.05, 0.95}),
      one(
          "multigammaln", [](const Tensor& x) { return multigammaln(x, 3); },
          [](double x) {
            return 1.5 * std::log(std::numbers::pi) + std::lgamma(x) + std::lgamma(x - 0.5) +
                   std::lgamma(x - 1.0);
          },
          {1.5, 4.0}),
      one(
          "gammainc", [](const Tensor& x) { return gammainc(full_like(x, 1.7).detach(), x); },
          [](double x) { return lower_gamma(1.7, x); }, kPositiveTo3),
      one(
          "gammaincc", [](const Tensor& x) { return gammaincc(full_like(x, 1.7).detach(), x); },
          [](double x) { return 1.0 - lower_gamma(1.7, x); }, kPositiveTo3),
      constant(two(
          "gammainc",
          [](const Tensor& a, const Tensor& x) { return gammainc(a.detach(), x.detach()); },
          lower_gamma, kPositiveTo3, kPositiveTo3)),
      one(
          "zeta", [](const Tensor& q) { return zeta(2.5, q); },
          [](double q) { return zeta_of(2.5, q); }, kPositiveTo3),
      constant(two(
          "zeta", [](const Tensor& s, const Tensor& q) { return zeta(s.detach(), q.detach()); },
          zeta_of, {1.5, 4.0}, kPositiveTo3)),
      constant(one(
          "rare",
          [](const Tensor& x) {
            const double number = static_cast<double>(math::Rare::bessel_j0);
            return Tensor(core::map<core::kernels::Rare>(Scalar(number), x.array(), Scalar(0.0)));
          },
          [](double x) { return j(0, x); })),
      two("nextafter", nextafter, [](double x, double y) { return std::nextafter(x, y); }, {}, {}),
      one(
          "frexp", [](const Tensor& x) { return frexp(x).mantissa; },
          [](double x) {
            int exponent = 0;
            return std::frexp(x, &exponent);
          },
          {-1.9, 1.9, {-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0}, 0.02}),
  };
}

// Whole numbers of fiftieths, of float64, whose products with 50 are the same numbers in whatever
// dtype x is.
Tensor in_fiftieths(const Tensor& x) { return (x.detach().to(kFloat64) * 50.0).to(kInt64); }

double divisor(double a, double b) {
  auto x = std::llabs(static_cast<long long>(a * 50.0));
  auto y = std::llabs(static_cast<long long>(b * 50.0));
  for (long long d = std::max(x, y); d > 0; --d) {
    if (x % d == 0 && y % d == 0) return static_cast<double>(d);
  }
  return 0.0;
}

Rows whole_number_rows() {
  return {
      constant(two(
          "gcd",
          [](const Tensor& a, const Tensor& b) { return gcd(in_fiftieths(a), in_fiftieths(b)); },
          divisor, {}, {})),
      constant(two(
          "lcm",
          [](const Tensor& a, const Tensor& b) { return lcm(in_fiftieths(a), in_fiftieths(b)); },
          [](double a, double b) {
            const double d = divisor(a, b);
            return d == 0.0 ? 0.0 : std::fabs(std::trunc(a * 50.0) * std::trunc(b * 50.0) / d);
          },
          {}, {})),
  };
}

Rows factor_rows() {
  const auto parts = [](const Tensors& x) {
    const PLU found = lu(x[0]);
    return Tensors{found.l, found.u, found.p};
  };
  const auto solution = [](const LUSolveOptions& options) {
    return [options](const Tensors& x) {
      const LUFactors found = lu_factor(dominant(x[0]));
      return lu_solve(found.lu, found.pivots, x[1], options);
    };
  };
  const auto number = [](MatrixNorm which) {
    return [which](const Tensors& x) { return cond(dominant(x[0]), which); };
  };
  return {
      apart({"lu", {{{2, 3, 3}}}, parts}),
      apart({"lu (tall)", {{{4, 2}}}, parts}),
      apart({"lu (wide)", {{{2, 4}}}, parts}),
      apart({"lu_factor",
             {{{2, 3, 3}}},
             [](const Tensors& x) {
               const LUFactors found = lu_factor(x[0]);
               return Tensors{found.lu, found.pivots};
             }}),
      apart({"lu_solve", {{{2, 3, 3}}, {{3, 2}}}, solution({})}),
      apart({"lu_solve (adjoint)", {{{3, 3}}, {{2, 3, 2}}}, solution({.adjoint = true})}),
      apart({"lu_solve (from the right)", {{{3, 3}}, {{2, 3}}}, solution({.left = false})}),
      apart({"householder_product",
             {{{2, 4, 3}}, {{2, 2}}},
             [](const Tensors& x) { return householder_product(x[0], x[1]); }}),
      apart({"ormqr",
             {{{4, 3}}, {{3}}, {{4, 2}}},
             [](const Tensors& x) { return ormqr(x[0], x[1], x[2], {.transpose = true}); }}),
      apart({"cond", {{{3, 3}}}, number(MatrixNorm::two)}),
      apart({"cond (fro)", {{{2, 3, 3}}}, number(MatrixNorm::fro)}),
      apart({"cond (nuc)", {{{3, 3}}}, number(MatrixNorm::nuc)}),
      apart({"matrix_norm (minus_two)",
             {{{3, 2}}},
             [](const Tensors& x) { return matrix_norm(x[0], MatrixNorm::minus_two); }}),
      apart({"matrix_norm (minus_inf, dims)",
             {{{3, 2, 2}}},
             [](const Tensors& x) {
               return matrix_norm(x[0], MatrixNorm::minus_inf, {2, 0}, true);
             }}),
  };
}

}  // namespace

Rows rare_rows() {
  Rows rows = rare_function_rows();
  for (const OpRow& row : whole_number_rows()) rows.push_back(row);
  for (const OpRow& row : factor_rows()) rows.push_back(row);
  return rows;
}

TEST_CASE("rare functions and LU factors: values, layouts and derivatives") {
  check_rows(rare_rows());
}

}  // namespace hero::test
