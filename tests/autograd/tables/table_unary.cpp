#include <cmath>
#include <numbers>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/core/functions/map.h>

namespace hero::test {

namespace {

// Away from where it bends, 0 included.
const Domain kBends3{-5.0, 5.0, {-3.0, 0.0, 3.0}};
const Domain kSteps{-2.9, 2.9, {-2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5}, 0.05};

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Rows smooth_rows() {
  return {
      one("exp", exp, std::exp),
      one("exp2", exp2, std::exp2),
      one("expm1", expm1, std::expm1),
      one("log", log, std::log, kPositive),
      one("log2", log2, std::log2, kPositive),
      one("log1p", log1p, std::log1p, {-0.7, 2.0}),
      one("sqrt", sqrt, std::sqrt, kPositive),
      one(
          "rsqrt", rsqrt, [](double x) { return 1.0 / std::sqrt(x); }, kPositive),
      one("square", square, [](double x) { return x * x; }),
      one("reciprocal", reciprocal, [](double x) { return 1.0 / x; }, {-2.0, 2.0, {0.0}, 0.4}),
      one("sin", sin, std::sin),
      one("cos", cos, std::cos),
      one("tan", tan, std::tan, {-1.2, 1.2}),
      one("atan", atan, std::atan),
      one("sinh", sinh, std::sinh),
      one("cosh", cosh, std::cosh),
      one("tanh", tanh, std::tanh),
      one("sigmoid", sigmoid, logistic),
      one("logsigmoid", logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); }),
      one("erf", erf, std::erf),
      one("silu", silu, [](double x) { return x * logistic(x); }),
      one("mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }),
      one("neg", neg, [](double x) { return -x; }),
      one(
          "gelu", [](const Tensor& x) { return gelu(x); },
          [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }),
      one(
          "gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); },
          [](double x) {
            const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1.0 + std::tanh(inner));
          }),
      one(
          "softplus", [](const Tensor& x) { return softplus(x, 2.0, 3.0); },
          [](double x) { return 2.0 * x > 3.0 ? x : std::log1p(std::exp(2.0 * x)) / 2.0; },
          {-3.0, 3.0, {1.5}}),
  };
}

Rows bent_rows() {
  return {
      one("abs", abs, std::fabs, kAwayFromZero),
      one(
          "sign", sign, [](double x) { return x > 0.0 ? 1.0 : -1.0; }, kAwayFromZero),
      one(
          "relu", relu, [](double x) { return std::fmax(x, 0.0); }, kAwayFromZero),
      one("relu6", relu6, [](double x) { return std::fmin(std::fmax(x, 0.0), 6.0); },
          {-4.0, 9.0, {0.0, 6.0}}),
      // [snippet: row]
      one(
          "softsign", softsign, [](double x) { return x / (1.0 + std::fabs(x)); }, kAwayFromZero),
      // [end]
      one(
          "hardswish", hardswish,
          [](double x) { return x * std::fmin(std::fmax(x + 3.0, 0.0), 6.0) / 6.0; }, kBends3),
      one("floor", floor, std::floor, kSteps),
      one("ceil", ceil, std::ceil, kSteps),
      one(
          "round", [](const Tensor& x) { return round(x); }, std::nearbyint, kSteps),
      one(
          "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
          [](double x) { return x > 0.0 ? x : 0.2 * x; }, kAwayFromZero),
      one(
          "elu", [](const Tensor& x) { return elu(x, 0.7); },
          [](double x) { return x > 0.0 ? x : 0.7 * std::expm1(x); }, kAwayFromZero),
      one(
          "hardtanh", [](const Tensor& x) { return hardtanh(x, -0.8, 1.1); },
          [](double x) { return std::fmin(std::fmax(x, -0.8), 1.1); }, {-2.0, 2.0, {-0.8, 1.1}}),
      one(
          "clamp", [](const Tensor& x) { return clamp(x, -0.8, 1.1); },
          [](double x) { return std::fmin(std::fmax(x, -0.8), 1.1); }, {-2.0, 2.0, {-0.8, 1.1}}),
      one(
          "clamp (upper bound only)", [](const Tensor& x) { return clamp(x, {}, 0.5); },
          [](double x) { return std::fmin(x, 0.5); }, {-2.0, 2.0, {0.5}}),
      constant(one("isnan", isnan, [](double x) { return x != x ? 1.0 : 0.0; })),
      constant(one("isinf", isinf, [](double) { return 0.0; })),
      constant(one("isfinite", isfinite, [](double) { return 1.0; })),
      constant(one("logical_not", logical_not, [](double x) { return x == 0.0 ? 1.0 : 0.0; })),
  };
}

// With a number on one side.
Rows scalar_rows() {
  const Domain positive = kPositive, apart = {-2.0, 2.0, {0.0}, 0.4};
  return {
      one(
          "add", [](const Tensor& x) { return 1.5 + x; }, [](double x) { return x + 1.5; }),
      one(
          "sub", [](const Tensor& x) { return x - 1.5; }, [](double x) { return x - 1.5; }),
      one(
          "sub (from a number)", [](const Tensor& x) { return 1.5 - x; },
          [](double x) { return 1.5 - x; }),
      one(
          "mul", [](const Tensor& x) { return x * 1.5; }, [](double x) { return x * 1.5; }),
      one(
          "div", [](const Tensor& x) { return x / 1.5; }, [](double x) { return x / 1.5; }),
      one(
          "div (of a number)", [](const Tensor& x) { return 1.5 / x; },
          [](double x) { return 1.5 / x; }, apart),
      one(
          "pow", [](const Tensor& x) { return pow(x, 1.7); },
          [](double x) { return std::pow(x, 1.7); }, positive),
      one(
          "pow (whole)", [](const Tensor& x) { return pow(x, 3); },
          [](double x) { return x * x * x; }),
      one(
          "pow (zero)", [](const Tensor& x) { return pow(x, 0); }, [](double) { return 1.0; }),
      one(
          "pow (of a number)", [](const Tensor& x) { return pow(1.7, x); },
          [](double x) { return std::pow(1.7, x); }),
      one(
          "remainder", [](const Tensor& x) { return remainder(x, 1.5); },
          [](double x) { return x - 1.5 * std::floor(x / 1.5); },
          {-2.9, 2.9, {-1.5, 0.0, 1.5}, 0.05}),
      // The kernel of optimizers; no function of its own.
      constant(one(
          "affine",
          [](const Tensor& x) {
            return Tensor(core::map<core::kernels::Affine>(x.array(), Scalar(2.0), Scalar(0.5)));
          },
          [](double x) { return x * 2.0 + 0.5; })),
  };
}

}  // namespace

Rows unary_rows() {
  Rows rows = smooth_rows();
  for (const Rows& part : {bent_rows(), scalar_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("elementwise operations of one tensor: values, layouts and derivatives") {
  check_rows(unary_rows());
}

}  // namespace hero::test
