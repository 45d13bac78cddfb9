#pragma once
// Rows of elementwise operations, whose values are those of a function of doubles.
#include "autograd/tables/op_table.h"

namespace hero::test {

/// f of x [2, 3].
template <class F>
OpRow one(const char* name, F f, double (*scalar)(double), Domain domain = {}) {
  OpRow row{name, {{{2, 3}, domain}}, [f](const Tensors& x) { return f(x[0]); }};
  row.scalar = [scalar](const std::vector<double>& x) { return scalar(x[0]); };
  return row;
}

/// f of x [2, 3] and y [2, 1].
template <class F>
OpRow two(const char* name, F f, double (*scalar)(double, double), Domain a = {}, Domain b = {}) {
  OpRow row{name, {{{2, 3}, a}, {{2, 1}, b}}, [f](const Tensors& x) { return f(x[0], x[1]); }};
  row.scalar = [scalar](const std::vector<double>& x) { return scalar(x[0], x[1]); };
  return row;
}

/// The row of an operation without derivative.
inline OpRow constant(OpRow row) {
  row.differentiable = false;
  return row;
}

}  // namespace hero::test
