#pragma once
// Rows of elementwise operations, whose values are those of a function of doubles.
#include <cmath>

#include "autograd/tables/op_table.h"

namespace hero::test {

/// \name Domains that several tables draw from
/// \{
inline const Domain kPositive{0.3, 2.0};
inline const Domain kPositiveTo3{0.4, 3.0};
inline const Domain kAwayFromZero{-2.0, 2.0, {0.0}};
/// \}

/// f of x [2, 3].
template <class F>
OpRow one(const char* name, F f, double (*scalar)(double), Domain domain = {}) {
  OpRow row{name, {{{2, 3}, domain}}, [f](const Tensors& x) { return f(x[0]); }};
  row.scalar = [scalar](const Values& x) { return scalar(x[0]); };
  return row;
}

/// f of x [2, 3] and y [2, 1].
template <class F>
OpRow two(const char* name, F f, double (*scalar)(double, double), Domain a = {}, Domain b = {}) {
  OpRow row{name, {{{2, 3}, a}, {{2, 1}, b}}, [f](const Tensors& x) { return f(x[0], x[1]); }};
  row.scalar = [scalar](const Values& x) { return scalar(x[0], x[1]); };
  return row;
}

/// The row of an operation without derivative.
inline OpRow constant(OpRow row) {
  row.differentiable = false;
  return row;
}

/// The sum over k of (k + q)^-s: terms up to 4000 and the integral of the rest by the midpoint
/// rule, whose next term is below 1e-13.
inline double zeta_of(double s, double q) {
  double sum = 0.0;
  const int count = 4000;
  for (int k = count - 1; k >= 0; --k) sum += std::pow(q + k, -s);
  const double from = q + count - 0.5;
  return sum + std::pow(from, 1.0 - s) / (s - 1.0) - s * std::pow(from, -s - 1.0) / 24.0;
}

}  // namespace hero::test
