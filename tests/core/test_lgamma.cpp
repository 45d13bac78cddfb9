// The float lgamma has no branch; the double one, of which it is a rounding, is tested in
// test_math.cpp.
#include <bit>
#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/core/kernels/math_special.h>

TEST_CASE("lgamma of a float is that of a double, rounded once", "[core]") {
  namespace math = hero::math;
  double worst = 0.0;
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 1009) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const auto x = std::bit_cast<float>(bits | sign);
      const double wide = math::lgamma(static_cast<double>(x));
      const float got = math::lgamma(x);
      if (std::isinf(static_cast<float>(wide))) {
        REQUIRE(got == static_cast<float>(wide));
        continue;
      }
      // Below 0 it is a difference, whose parts are rounded as doubles.
      const double parts = 4.0 * std::abs(math::lgamma(std::abs(static_cast<double>(x)))) + 4.0;
      const double unit = std::ldexp(1.0, std::ilogb(wide == 0.0 ? 1.0 : wide) - 23);
      const double error = std::abs(got - wide) - (sign != 0 ? parts * 0x1p-50 : 0.0);
      worst = std::max(worst, error / unit);
    }
  }
  CHECK(worst <= 0.51);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, -0.0f, -1.0f, -3e7f, kInfinity, -kInfinity}) {
    CHECK(math::lgamma(x) == kInfinity);
  }
  for (const float x : {1.0f, 2.0f}) CHECK(math::lgamma(x) == 0.0f);
  CHECK(std::isnan(math::lgamma(std::numeric_limits<float>::quiet_NaN())));
}
