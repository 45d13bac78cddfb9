#include <cmath>
#include <numbers>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// Where erf is x, by halving.
double inverse_of_erf(double x) {
  double low = -6.0, high = 6.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2.0;
    (std::erf(middle) < x ? low : high) = middle;
  }
  return (low + high) / 2.0;
}

// By the integral of (1 - t^(x - 1)) / (1 - t) less Euler's constant, as the limit of sums.
double digamma_of(double x) {
  double sum = 0.0;
  const int count = 4000;
  for (int k = count - 1; k >= 0; --k) sum += 1.0 / (x + k);
  const double end = x + count;
  return std::log(end) - 0.5 / end - 1.0 / (12.0 * end * end) - sum;
}

const Domain kInside{-0.9, 0.9};

Rows inverse_rows() {
  return {
      one("asin", asin, std::asin, kInside),
      one("acos", acos, std::acos, kInside),
      one("asinh", asinh, std::asinh),
      one("acosh", acosh, std::acosh, {1.3, 4.0}),
      one("atanh", atanh, std::atanh, kInside),
      one("log10", log10, std::log10, kPositiveTo3),
      one("erfc", erfc, std::erfc),
      one("erfinv", erfinv, inverse_of_erf, kInside),
      one(
          "lgamma", lgamma, [](double x) { return std::log(std::tgamma(x)); }, kPositiveTo3),
      one("digamma", digamma, digamma_of, kPositiveTo3),
      one(
          "polygamma", [](const Tensor& x) { return polygamma(1, x); },
          [](double x) { return zeta_of(2.0, x); }, kPositiveTo3),
      one(
          "polygamma", [](const Tensor& x) { return polygamma(2, x); },
          [](double x) { return -2.0 * zeta_of(3.0, x); }, kPositiveTo3),
      one(
          "logit", [](const Tensor& x) { return logit(x); },
          [](double x) { return std::log(x) - std::log1p(-x); }, {0.1, 0.9}),
      one(
          "logit", [](const Tensor& x) { return logit(x, 0.3); },
          [](double x) {
            const double cut = std::fmin(std::fmax(x, 0.3), 0.7);
            return std::log(cut) - std::log1p(-cut);
          },
          {0.05, 0.95, {0.3, 0.7}, 0.05}),
      one("sinc", sinc,
          [](double x) { return std::sin(std::numbers::pi * x) / (std::numbers::pi * x); },
          {-2.0, 2.0, {0.0}}),
      one("deg2rad", deg2rad, [](double x) { return x * std::numbers::pi / 180.0; }),
      one("rad2deg", rad2deg, [](double x) { return x * 180.0 / std::numbers::pi; }),
      one(
          "nan_to_num",
          [](const Tensor& x) { return nan_to_num(1.0 / where(x > 1, 0, x), {.posinf = 3.0}); },
          [](double x) { return x > 1.0 ? 3.0 : 1.0 / x; }, {-2.0, 2.0, {0.0, 1.0}, 0.3}),
      one(
          "round", [](const Tensor& x) { return round(x, 1); },
          [](double x) { return std::nearbyint(x * 10.0) / 10.0; },
          {-0.3, 0.3, {-0.25, -0.15, -0.05, 0.05, 0.15, 0.25}, 0.01}),
  };
}

Rows pair_rows() {
  const Domain apart{-2.0, 2.0, {0.0}, 0.4};
  return {
      two(
          "xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); },
          [](double x, double y) { return x * std::log(y); }, apart, kPositiveTo3),
      one(
          "xlogy", [](const Tensor& x) { return xlogy(x, 3.0) + xlogy(2, x); },
          [](double x) { return x * std::log(3.0) + 2.0 * std::log(x); }, kPositiveTo3),
      two("hypot", hypot, std::hypot, apart, apart),
      two(
          "copysign", [](const Tensor& a, const Tensor& b) { return copysign(a, b); },
          std::copysign, apart, apart),
      two(
          "float_power", [](const Tensor& a, const Tensor& b) { return float_power(a, b); },
          std::pow, kPositiveTo3),
      two("fmax", fmax, std::fmax),
      two("fmin", fmin, std::fmin),
      two(
          "add (alpha)", [](const Tensor& a, const Tensor& b) { return add(a, b, 0.7); },
          [](double a, double b) { return a + 0.7 * b; }),
      two(
          "sub (alpha)", [](const Tensor& a, const Tensor& b) { return sub(a, b, 0.7); },
          [](double a, double b) { return a - 0.7 * b; }),
      two(
          "clamp_min", [](const Tensor& a, const Tensor& b) { return clamp_min(a, b); }, std::fmax),
      two(
          "clamp_max", [](const Tensor& a, const Tensor& b) { return clamp_max(a, b); }, std::fmin),
      {.name = "clamp (tensors)",
       .inputs = {{{2, 3}}, {{2, 1}, {-1.5, -0.5}}, {{3}, {0.3, 1.5}}},
       .call = [](const Tensors& x) { return clamp(x[0], x[1], x[2]); },
       .empty = {{0, 3}, {0, 1}, {3}},
       .scalar =
           [](const std::vector<double>& x) { return std::fmin(std::fmax(x[0], x[1]), x[2]); }},
      constant(two("heaviside", heaviside,
                   [](double a, double b) { return a > 0.0 ? 1.0 : (a < 0.0 ? 0.0 : b); })),
      constant(one("signbit", signbit, [](double x) { return std::signbit(x) ? 1.0 : 0.0; })),
      constant(one("isposinf", isposinf, [](double) { return 0.0; })),
      constant(one("isneginf", isneginf, [](double) { return 0.0; })),
  };
}

}  // namespace

Rows special_rows() {
  Rows rows = inverse_rows();
  for (const OpRow& row : pair_rows()) rows.push_back(row);
  return rows;
}

TEST_CASE("special functions: values, layouts and derivatives") { check_rows(special_rows()); }

}  // namespace hero::test
