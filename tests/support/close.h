#pragma once
// Tensors beside numbers from elsewhere.
#include <cmath>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/ops.h>

namespace hero::test {

/// sin(0.7 i + phase) for element i, in float64: what the scripts that made the numbers began with.
inline Tensor waves(const Shape& shape, double phase) {
  return sin(arange(shape.numel(), {.dtype = kFloat64}) * 0.7 + phase).reshape(shape).detach();
}

/// Checks each element against a number, of which twelve digits are known.
inline void check_near(const Tensor& found, const std::vector<double>& expected,
                       double tolerance = 1e-10) {
  const std::vector<double> values = found.detach().to(kFloat64).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": " << values[i] << ", expected " << expected[i]);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(values[i]));
    } else {
      CHECK(std::fabs(values[i] - expected[i]) <=
            tolerance * std::fmax(1.0, std::fabs(expected[i])));
    }
  }
}

}  // namespace hero::test
