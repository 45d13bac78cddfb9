#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

namespace hero::test {

namespace {

using Scalar2 = double (*)(double, double);
using Function2 = Tensor (*)(const Tensor&, const Tensor&);

OpRow binary(const char* name, Function2 f, Scalar2 scalar, Domain a = {}, Domain b = {}) {
  OpRow row{name, {{{2, 3}, a}, {{2, 3}, b}}, f};
  row.scalar = [scalar](const Values& x) { return scalar(x[0], x[1]); };
  return row;
}

// The same with operands that broadcast to each other.
OpRow mixed(OpRow row) {
  row.name += " (broadcasting)";
  row.inputs[0].shape = {2, 1, 3};
  row.inputs[1].shape = {4, 1};
  row.empty = {{2, 1, 0}, {4, 1}};
  return row;
}

const Domain kApart{-2.0, 2.0, {0.0}, 0.4};

Rows arithmetic_rows() {
  const OpRow rows[] = {
      binary("add", add, [](double a, double b) { return a + b; }),
      binary("sub", sub, [](double a, double b) { return a - b; }),
      binary("mul", mul, [](double a, double b) { return a * b; }),
      binary(
          "div", div, [](double a, double b) { return a / b; }, {}, kApart),
      binary("pow", pow, std::pow, kPositive),
      binary("atan2", atan2, std::atan2, kApart, kApart),
      binary("maximum", maximum, std::fmax),
      binary("minimum", minimum, std::fmin),
      binary("logaddexp", logaddexp,
             [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }),
      // The quotients stay away from whole numbers.
      binary("remainder", remainder, [](double a, double b) { return a - b * std::floor(a / b); },
             {0.1, 0.9}, {1.0, 2.0}),
  };
  Rows result;
  for (const OpRow& row : rows) {
    result.push_back(row);
    result.push_back(mixed(row));
  }
  return result;
}

Rows comparison_rows() {
  return {
      constant(binary("eq", eq, [](double a, double b) { return a == b ? 1.0 : 0.0; })),
      constant(binary("ne", ne, [](double a, double b) { return a != b ? 1.0 : 0.0; })),
      constant(binary("lt", lt, [](double a, double b) { return a < b ? 1.0 : 0.0; })),
      constant(binary("le", le, [](double a, double b) { return a <= b ? 1.0 : 0.0; })),
      constant(binary("gt", gt, [](double a, double b) { return a > b ? 1.0 : 0.0; })),
      constant(binary("ge", ge, [](double a, double b) { return a >= b ? 1.0 : 0.0; })),
      constant(binary("logical_and", logical_and,
                      [](double a, double b) { return a != 0.0 && b != 0.0 ? 1.0 : 0.0; })),
      constant(binary("logical_or", logical_or,
                      [](double a, double b) { return a != 0.0 || b != 0.0 ? 1.0 : 0.0; })),
      constant(binary("logical_xor", logical_xor,
                      [](double a, double b) { return (a != 0.0) != (b != 0.0) ? 1.0 : 0.0; })),
  };
}

template <class F>
OpRow several(const char* name, std::vector<Input> inputs, F f,
              std::function<double(const Values&)> scalar) {
  OpRow row{name, std::move(inputs), f};
  row.scalar = std::move(scalar);
  return row;
}

Rows several_rows() {
  const Shape s = {2, 3};
  return {
      several(
          "lerp", {{s}, {s}}, [](const Tensors& x) { return lerp(x[0], x[1], 0.3); },
          [](const Values& x) { return x[0] + 0.3 * (x[1] - x[0]); }),
      several(
          "lerp", {{s}, {s}, {{2, 1}}}, [](const Tensors& x) { return lerp(x[0], x[1], x[2]); },
          [](const Values& x) { return x[0] + x[2] * (x[1] - x[0]); }),
      several(
          "addcmul", {{s}, {s}, {{2, 1}}},
          [](const Tensors& x) { return addcmul(x[0], x[1], x[2], 0.7); },
          [](const Values& x) { return x[0] + 0.7 * x[1] * x[2]; }),
      several(
          "addcdiv", {{s}, {s}, {s, kApart}},
          [](const Tensors& x) { return addcdiv(x[0], x[1], x[2], 0.7); },
          [](const Values& x) { return x[0] + 0.7 * x[1] / x[2]; }),
      several(
          "where", {{s}, {s}}, [](const Tensors& x) { return where(x[0] > x[1], x[0], x[1]); },
          [](const Values& x) { return std::fmax(x[0], x[1]); }),
      several(
          "where (a number)", {{s, kApart}},
          [](const Tensors& x) { return where(x[0] > 0, x[0], 0.5) + where(x[0] > 0, 2, x[0]); },
          [](const Values& x) { return x[0] > 0 ? x[0] + 2 : 0.5 + x[0]; }),
      several(
          "masked_fill", {{s, kApart}},
          [](const Tensors& x) { return masked_fill(x[0], x[0] > 0, 0.5); },
          [](const Values& x) { return x[0] > 0 ? 0.5 : x[0]; }),
      several(
          "mul (by itself)", {{s}}, [](const Tensors& x) { return x[0] * x[0]; },
          [](const Values& x) { return x[0] * x[0]; }),
  };
}

}  // namespace

Rows binary_rows() {
  Rows rows = arithmetic_rows();
  for (const Rows& part : {comparison_rows(), several_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("elementwise operations of several tensors: values, layouts and derivatives") {
  check_rows(binary_rows());
}

}  // namespace hero::test
