#include <cmath>

#include "autograd/tables/elementwise_rows.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

const Domain kWholeSteps{-2.9, 2.9, {-2, -1, 0, 1, 2}, 0.05};
// Quotients of these stay away from whole numbers.
const Domain kSmall{0.1, 0.9}, kLarge{1.0, 2.0};

// Whole numbers from about -20 to 20.
Tensor whole(const Tensor& x) { return (x.to(kFloat64) * 10.0).to(kInt64); }
int64_t whole(double x) { return static_cast<int64_t>(x * 10.0); }

Rows quotient_rows() {
  return {
      one("trunc", trunc, std::trunc, kWholeSteps),
      one("fix", fix, std::trunc, kWholeSteps),
      one(
          "frac", frac, [](double x) { return x - std::trunc(x); }, kWholeSteps),
      constant(two(
          "floor_divide", [](const Tensor& a, const Tensor& b) { return floor_divide(-a, b); },
          [](double a, double b) { return std::floor(-a / b); }, kSmall, kLarge)),
      constant(one(
          "floor_divide",
          [](const Tensor& x) { return floor_divide(x, 0.7) + floor_divide(5.0, x); },
          [](double x) { return std::floor(x / 0.7) + std::floor(5.0 / x); }, kWholeSteps)),
      two(
          "div (floor)",
          [](const Tensor& a, const Tensor& b) { return div(-a, b, Rounding::floor); },
          [](double a, double b) { return std::floor(-a / b); }, kSmall, kLarge),
      two(
          "trunc_divide",
          [](const Tensor& a, const Tensor& b) { return div(-a, b * 0.3, Rounding::trunc); },
          [](double a, double b) { return std::trunc(-a / (b * 0.3)); }, {0.35, 0.45}, {0.9, 1.1}),
      one(
          "div (trunc, a number)", [](const Tensor& x) { return div(x, 1.0, Rounding::trunc); },
          std::trunc, kWholeSteps),
      one(
          "div (floor, a number)", [](const Tensor& x) { return div(x, 1.0, Rounding::floor); },
          std::floor, kWholeSteps),
      two(
          "fmod", [](const Tensor& a, const Tensor& b) { return fmod(a * -3.0, b); },
          [](double a, double b) { return std::fmod(a * -3.0, b); }, {0.7, 0.9}, {1.1, 1.9}),
      one(
          "fmod", [](const Tensor& x) { return fmod(x, 1.0); },
          [](double x) { return std::fmod(x, 1.0); }, kWholeSteps),
      one(
          "remainder (of a number)", [](const Tensor& x) { return remainder(3.0, x); },
          [](double x) { return 3.0 - x * std::floor(3.0 / x); }, {1.6, 2.8}),
  };
}

template <Tensor (*F)(const Tensor&, const Tensor&)>
Tensor of_whole(const Tensor& a, const Tensor& b) {
  return F(whole(a), whole(b));
}

Rows bit_rows() {
  return {
      constant(two("bitwise_and", of_whole<bitwise_and>,
                   [](double a, double b) { return double(whole(a) & whole(b)); }, {}, {})),
      constant(two("bitwise_or", of_whole<bitwise_or>,
                   [](double a, double b) { return double(whole(a) | whole(b)); }, {}, {})),
      constant(two("bitwise_xor", of_whole<bitwise_xor>,
                   [](double a, double b) { return double(whole(a) ^ whole(b)); }, {}, {})),
      constant(one(
          "bitwise_not", [](const Tensor& x) { return bitwise_not(whole(x)); },
          [](double x) { return double(~whole(x)); }, {})),
      constant(one(
          "bitwise_and (a number)", [](const Tensor& x) { return whole(x) & 6; },
          [](double x) { return double(whole(x) & 6); }, {})),
      constant(two("bitwise_left_shift", of_whole<bitwise_left_shift>,
                   [](double a, double b) { return double(whole(a) * (int64_t{1} << whole(b))); },
                   {}, {0.0, 1.5})),
      constant(two("bitwise_right_shift", of_whole<bitwise_right_shift>,
                   [](double a, double b) {
                     return std::floor(double(whole(a)) / double(int64_t{1} << whole(b)));
                   },
                   {}, {0.0, 0.5})),
  };
}

}  // namespace

Rows whole_rows() {
  Rows rows = quotient_rows();
  for (const OpRow& row : bit_rows()) rows.push_back(row);
  return rows;
}

TEST_CASE("whole quotients, remainders and bits: values, layouts and derivatives") {
  check_rows(whole_rows());
}

}  // namespace hero::test
