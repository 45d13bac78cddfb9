#pragma once
// Matrices for tests of solvers and decompositions: how far apart they are.
#include <algorithm>
#include <cmath>

#include "support/arrays.h"

#include <hero/core/functions/map.h>

namespace hero::test {

/// The largest magnitude of the elements.
inline double largest_of(const Array& x) {
  double largest = 0.0;
  for (const double value : x.to_vector<double>()) {
    largest = std::isnan(value) ? value : std::max(largest, std::abs(value));
  }
  return largest;
}

/// The largest magnitude of a - b, in float64.
inline double apart(const Array& a, const Array& b) {
  return largest_of(core::map<core::kernels::Sub>(a.to(kFloat64), b.to(kFloat64)));
}

inline Array identity(int64_t n, DType dtype = kFloat64) {
  const Array one = Array::zeros({n, n}, dtype);
  core::backend(kCpu).run(core::call::Fill{one.diagonal(), 1});
  return one;
}

}  // namespace hero::test
