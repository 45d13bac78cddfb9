#include <cmath>
#include <numbers>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/core/functions/map.h>

namespace hero::test {

namespace {

using Scalar1 = double (*)(double);

OpRow unary(const char* name, Tensor (*f)(const Tensor&), Scalar1 scalar, Domain domain = {}) {
  OpRow row{name, {{{2, 3}, domain}}, f};
  row.scalar = [scalar](const std::vector<double>& x) { return scalar(x[0]); };
  return row;
}

template <class F>
OpRow unary_with(const char* name, F f, Scalar1 scalar, Domain domain = {}) {
  OpRow row{name, {{{2, 3}, domain}}, [f](const Tensors& x) { return f(x[0]); }};
  row.scalar = [scalar](const std::vector<double>& x) { return scalar(x[0]); };
  return row;
}

OpRow predicate(OpRow row) {
  row.differentiable = false;
  return row;
}

const Domain kPositive{0.3, 2.0};
const Domain kAwayFromZero{-2.0, 2.0, {0.0}};
// Away from where it bends, 0 included.
const Domain kBends3{-5.0, 5.0, {-3.0, 0.0, 3.0}};
const Domain kSteps{-2.9, 2.9, {-2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5}, 0.05};

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Rows smooth_rows() {
  return {
      unary("exp", exp, std::exp),
      unary("exp2", exp2, std::exp2),
      unary("expm1", expm1, std::expm1),
      unary("log", log, std::log, kPositive),
      unary("log2", log2, std::log2, kPositive),
      unary("log1p", log1p, std::log1p, {-0.7, 2.0}),
      unary("sqrt", sqrt, std::sqrt, kPositive),
      unary(
          "rsqrt", rsqrt, [](double x) { return 1.0 / std::sqrt(x); }, kPositive),
      unary("square", square, [](double x) { return x * x; }),
      unary("reciprocal", reciprocal, [](double x) { return 1.0 / x; }, {-2.0, 2.0, {0.0}, 0.4}),
      unary("sin", sin, std::sin),
      unary("cos", cos, std::cos),
      unary("tan", tan, std::tan, {-1.2, 1.2}),
      unary("atan", atan, std::atan),
      unary("sinh", sinh, std::sinh),
      unary("cosh", cosh, std::cosh),
      unary("tanh", tanh, std::tanh),
      unary("sigmoid", sigmoid, logistic),
      unary("logsigmoid", logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); }),
      unary("erf", erf, std::erf),
      unary("silu", silu, [](double x) { return x * logistic(x); }),
      unary("mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }),
      unary("neg", neg, [](double x) { return -x; }),
      unary_with(
          "gelu", [](const Tensor& x) { return gelu(x); },
          [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }),
      unary_with(
          "gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); },
          [](double x) {
            const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1.0 + std::tanh(inner));
          }),
      unary_with(
          "softplus", [](const Tensor& x) { return softplus(x, 2.0, 3.0); },
          [](double x) { return 2.0 * x > 3.0 ? x : std::log1p(std::exp(2.0 * x)) / 2.0; },
          {-3.0, 3.0, {1.5}}),
  };
}

Rows bent_rows() {
  return {
      unary("abs", abs, std::fabs, kAwayFromZero),
      unary(
          "sign", sign, [](double x) { return x > 0.0 ? 1.0 : -1.0; }, kAwayFromZero),
      unary(
          "relu", relu, [](double x) { return std::fmax(x, 0.0); }, kAwayFromZero),
      unary("relu6", relu6, [](double x) { return std::fmin(std::fmax(x, 0.0), 6.0); },
            {-4.0, 9.0, {0.0, 6.0}}),
      // [snippet: row]
      unary(
          "softsign", softsign, [](double x) { return x / (1.0 + std::fabs(x)); }, kAwayFromZero),
      // [end]
      unary(
          "hardswish", hardswish,
          [](double x) { return x * std::fmin(std::fmax(x + 3.0, 0.0), 6.0) / 6.0; }, kBends3),
      unary("floor", floor, std::floor, kSteps),
      unary("ceil", ceil, std::ceil, kSteps),
      unary("round", round, std::nearbyint, kSteps),
      unary_with(
          "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); },
          [](double x) { return x > 0.0 ? x : 0.2 * x; }, kAwayFromZero),
      unary_with(
          "elu", [](const Tensor& x) { return elu(x, 0.7); },
          [](double x) { return x > 0.0 ? x : 0.7 * std::expm1(x); }, kAwayFromZero),
      unary_with(
          "hardtanh", [](const Tensor& x) { return hardtanh(x, -0.8, 1.1); },
          [](double x) { return std::fmin(std::fmax(x, -0.8), 1.1); }, {-2.0, 2.0, {-0.8, 1.1}}),
      unary_with(
          "clamp", [](const Tensor& x) { return clamp(x, -0.8, 1.1); },
          [](double x) { return std::fmin(std::fmax(x, -0.8), 1.1); }, {-2.0, 2.0, {-0.8, 1.1}}),
      unary_with(
          "clamp (upper bound only)", [](const Tensor& x) { return clamp(x, {}, 0.5); },
          [](double x) { return std::fmin(x, 0.5); }, {-2.0, 2.0, {0.5}}),
      predicate(unary("isnan", isnan, [](double x) { return x != x ? 1.0 : 0.0; })),
      predicate(unary("isinf", isinf, [](double) { return 0.0; })),
      predicate(unary("isfinite", isfinite, [](double) { return 1.0; })),
      predicate(unary("logical_not", logical_not, [](double x) { return x == 0.0 ? 1.0 : 0.0; })),
  };
}

// With a number on one side.
Rows scalar_rows() {
  const Domain positive = kPositive, apart = {-2.0, 2.0, {0.0}, 0.4};
  return {
      unary_with(
          "add", [](const Tensor& x) { return 1.5 + x; }, [](double x) { return x + 1.5; }),
      unary_with(
          "sub", [](const Tensor& x) { return x - 1.5; }, [](double x) { return x - 1.5; }),
      unary_with(
          "sub (from a number)", [](const Tensor& x) { return 1.5 - x; },
          [](double x) { return 1.5 - x; }),
      unary_with(
          "mul", [](const Tensor& x) { return x * 1.5; }, [](double x) { return x * 1.5; }),
      unary_with(
          "div", [](const Tensor& x) { return x / 1.5; }, [](double x) { return x / 1.5; }),
      unary_with(
          "div (of a number)", [](const Tensor& x) { return 1.5 / x; },
          [](double x) { return 1.5 / x; }, apart),
      unary_with(
          "pow", [](const Tensor& x) { return pow(x, 1.7); },
          [](double x) { return std::pow(x, 1.7); }, positive),
      unary_with(
          "pow (whole)", [](const Tensor& x) { return pow(x, 3); },
          [](double x) { return x * x * x; }),
      unary_with(
          "pow (zero)", [](const Tensor& x) { return pow(x, 0); }, [](double) { return 1.0; }),
      unary_with(
          "pow (of a number)", [](const Tensor& x) { return pow(1.7, x); },
          [](double x) { return std::pow(1.7, x); }),
      unary_with(
          "remainder", [](const Tensor& x) { return remainder(x, 1.5); },
          [](double x) { return x - 1.5 * std::floor(x / 1.5); },
          {-2.9, 2.9, {-1.5, 0.0, 1.5}, 0.05}),
      // The kernel of optimizers; no function of its own.
      predicate(unary_with(
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
