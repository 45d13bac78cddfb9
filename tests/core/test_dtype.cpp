#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/map.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

// The value of a 16-bit float by the book: sign, exponent, fraction.
template <int kExponentBits>
double value_of(uint32_t bits) {
  constexpr int kFraction = 15 - kExponentBits;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((bits & 0x7FFFu) >> kFraction);
  const int fraction = static_cast<int>(bits & ((1u << kFraction) - 1));
  if (exponent == (1 << kExponentBits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - kBias - kFraction);
  return sign * std::ldexp(fraction + (1 << kFraction), exponent - kBias - kFraction);
}

template <class Half, int kExponentBits>
void every_pattern_round_trips() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const auto wide = static_cast<float>(half);
    const double expected = value_of<kExponentBits>(bits);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(wide));
      REQUIRE(std::isnan(static_cast<float>(Half(wide))));
    } else {
      REQUIRE(static_cast<double>(wide) == expected);
      REQUIRE(std::signbit(wide) == ((bits & 0x8000u) != 0));
      REQUIRE(Half(wide).bits == bits);
    }
  }
}

TEST_CASE("every bit pattern of float16 has its value and comes back", "[core]") {
  every_pattern_round_trips<Float16, 5>();
}
TEST_CASE("every bit pattern of bfloat16 has its value and comes back", "[core]") {
  every_pattern_round_trips<BFloat16, 8>();
}

// Between each two neighbours: the midpoint goes to the even one, a hair to either side goes to the
// near one.
template <class Half>
void rounding_is_to_nearest_even(uint16_t largest) {
  for (uint16_t bits = 0; bits < largest; ++bits) {
    Half low, high;
    low.bits = bits;
    high.bits = static_cast<uint16_t>(bits + 1);
    const auto a = static_cast<float>(low), b = static_cast<float>(high);
    const float middle = a + (b - a) / 2;  // exact: one bit more than a half has
    const uint16_t even = (bits & 1u) == 0 ? low.bits : high.bits;
    for (const float sign : {1.0f, -1.0f}) {
      const auto sign_bit = static_cast<uint16_t>(sign < 0 ? 0x8000 : 0);
      REQUIRE(Half(sign * middle).bits == (even | sign_bit));
      REQUIRE(Half(sign * std::nextafter(middle, a)).bits == (low.bits | sign_bit));
      REQUIRE(Half(sign * std::nextafter(middle, b)).bits == (high.bits | sign_bit));
    }
  }
}

TEST_CASE("float16 rounds to nearest even, denormals included", "[core]") {
  rounding_is_to_nearest_even<Float16>(0x7BFF);
  REQUIRE(Float16(65519.996f).bits == 0x7BFF);
  REQUIRE(Float16(65520.0f).bits == 0x7C00);  // halfway beyond the largest: infinity
  REQUIRE(Float16(FLT_MAX).bits == 0x7C00);
  REQUIRE(Float16(-FLT_MAX).bits == 0xFC00);
}
TEST_CASE("bfloat16 rounds to nearest even, denormals included", "[core]") {
  rounding_is_to_nearest_even<BFloat16>(0x7F7F);
  REQUIRE(BFloat16(FLT_MAX).bits == 0x7F80);
}

TEST_CASE("dtypes promote by PyTorch's table", "[core]") {
  const DType order[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
  constexpr DType b = kBool, u = kUInt8, i = kInt32, l = kInt64, h = kFloat16, g = kBFloat16,
                  f = kFloat32, d = kFloat64;
  // torch.promote_types, rows and columns in the order above.
  const DType table[8][8] = {
      {b, u, i, l, h, g, f, d}, {u, u, i, l, h, g, f, d}, {i, i, i, l, h, g, f, d},
      {l, l, l, l, h, g, f, d}, {h, h, h, h, h, f, f, d}, {g, g, g, g, f, g, f, d},
      {f, f, f, f, f, f, f, d}, {d, d, d, d, d, d, d, d},
  };
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      REQUIRE(promote(order[row], order[column]) == table[row][column]);
      const Array x = Array::ones({2}, order[row]), y = Array::ones({2}, order[column]);
      REQUIRE(map<kernels::Mul>(x, y).dtype() == table[row][column]);
    }
  }
}

TEST_CASE("scalars promote across kinds only", "[core]") {
  const auto dtype = [](DType of, Scalar s) {
    return map<kernels::Add>(Array::ones({2}, of), s).dtype();
  };
  REQUIRE(dtype(kUInt8, 300) == kUInt8);
  REQUIRE(dtype(kInt32, int64_t{1} << 40) == kInt32);
  REQUIRE(dtype(kBool, 1) == kInt64);
  REQUIRE(dtype(kBool, true) == kBool);
  REQUIRE(dtype(kInt64, 1.5) == kFloat32);
  REQUIRE(dtype(kBool, 1.5) == kFloat32);
  for (const DType of : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    REQUIRE(dtype(of, 1.5) == of);
    REQUIRE(dtype(of, 7) == of);
    REQUIRE(dtype(of, true) == of);
  }
}

TEST_CASE("integer scalars keep all 64 bits", "[core]") {
  const int64_t big = (int64_t{1} << 53) + 1;
  REQUIRE(map<kernels::Add>(Array::zeros({1}, kInt64), big).item<int64_t>() == big);
  REQUIRE(Array::full({1}, INT64_MIN, kInt64).item<int64_t>() == INT64_MIN);
}

bool all_are(const Array& x, int64_t value) {
  const std::vector<int64_t> values = x.to(kInt64).to_vector<int64_t>();
  return std::count(values.begin(), values.end(), value) == x.numel();
}

TEST_CASE("conversion truncates, wraps and tests for zero", "[core]") {
  const Array x = Array::from(std::vector<float>{-1.9f, 0.0f, 0.5f, 2.9f}, {4});
  REQUIRE(x.to(kInt32).to_vector<int32_t>() == std::vector<int32_t>{-1, 0, 0, 2});
  REQUIRE(x.to(kBool).to_vector<bool>() == std::vector<bool>{true, false, true, true});
  // what does not fit, on every processor: as many as make vectors of, and one alone
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType from : {kFloat32, kFloat64}) {
    for (const double value : {1e30, -1e30, std::numeric_limits<double>::infinity(), nan}) {
      for (const int64_t n : {1, 35}) {
        const Array far = Array::full({n}, value, from);
        REQUIRE(all_are(far.to(kInt32), INT32_MIN));
        REQUIRE(all_are(far.to(kInt64), INT64_MIN));
        REQUIRE(all_are(far.to(kUInt8), 0));
      }
    }
    REQUIRE(all_are(Array::full({35}, -1.5, from).to(kUInt8), 255));
    REQUIRE(all_are(Array::full({35}, 300.5, from).to(kUInt8), 44));
  }
  const Array big = Array::from(std::vector<int64_t>{256 + 7, -1}, {2});
  REQUIRE(big.to(kUInt8).to_vector<uint8_t>() == std::vector<uint8_t>{7, 255});
  REQUIRE(x.to(kFloat32).storage_ref() == x.storage_ref());
}

TEST_CASE("sizes and names of dtypes are NumPy's", "[core]") {
  REQUIRE(std::string(name(kBFloat16)) == "bfloat16");
  REQUIRE(std::string(name(kBool)) == "bool");
  REQUIRE(item_size(kBool) == 1);
  REQUIRE(item_size(kFloat16) == 2);
  REQUIRE(item_size(kInt64) == 8);
}

}  // namespace
