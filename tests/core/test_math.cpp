#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"

#include <hero/core/kernels/math.h>
#include <hero/core/kernels/math_special.h>

namespace {

namespace math = hero::math;
using Wide = long double;  // the references are libm's, in 64 bits of mantissa

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t bits(float x) { return __builtin_bit_cast(uint32_t, x); }

/// |got - want| in units of the last place of want in T.
template <class T>
double ulps(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e30;
  const T nearest = static_cast<T>(want);
  if (got == nearest) return 0.5;
  if (std::isinf(got) || std::isinf(nearest)) return 1e30;
  int exponent = 0;
  std::frexp(want, &exponent);
  const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - want) / std::ldexp(Wide{1}, last));
}

/// out[i] = f(in[i]) the way kernels do it: a loop the compiler turns into vector code.
template <class F>
[[gnu::noinline]] void map(const float* __restrict in, float* __restrict out, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; ++i) out[i] = f(in[i]);
}

Wide sigmoid(Wide x) { return 1 / (1 + std::exp(-x)); }
Wide silu(Wide x) { return std::isinf(x) && x < 0 ? -Wide{0} : x * sigmoid(x); }
Wide softplus(Wide x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
Wide logsigmoid(Wide x) { return -softplus(-x); }
Wide mish(Wide x) { return std::isinf(x) && x < 0 ? -Wide{0} : x * std::tanh(softplus(x)); }
Wide gelu(Wide x) {
  return std::isinf(x) && x < 0 ? -Wide{0} : x / 2 * std::erfc(-x * std::sqrt(Wide{0.5}));
}
Wide gelu_exponent(Wide x) {
  return 2 * std::sqrt(2 / std::acos(Wide{-1})) * (x + 0.044715L * x * x * x);
}
Wide gelu_tanh(Wide x) {
  return std::isinf(x) && x < 0 ? -Wide{0} : x / (1 + std::exp(-gelu_exponent(x)));
}

// Every float function of one argument: what it computes, its reference and its bound in ulp.
// A macro, because a set of overloads cannot be passed as an argument.
// computes, its reference and its bound in ulp.
template <class Visit>
void for_each_function(Visit visit) {
#define HERO_ROW(name, reference, bound) \
  visit(                                 \
      #name, [](float x) { return math::name(x); }, [](Wide x) { return reference(x); }, bound)
  // Evaluated in float: each bound is the one stated in math_float.h.
  HERO_ROW(exp, std::exp, 1.0);
  HERO_ROW(exp2, std::exp2, 1.0);
  HERO_ROW(log, std::log, 1.0);
  HERO_ROW(tanh, std::tanh, 3.0);
  HERO_ROW(sigmoid, sigmoid, 2.5);
  HERO_ROW(silu, silu, 3.5);
  HERO_ROW(erf, std::erf, 1.5);
  HERO_ROW(rsqrt, 1 / std::sqrt, 1.5);
  // Evaluated in double and rounded once.
  HERO_ROW(sin, std::sin, 0.5001);
  HERO_ROW(cos, std::cos, 0.5001);
  HERO_ROW(tan, std::tan, 0.5001);
  HERO_ROW(atan, std::atan, 0.51);
  HERO_ROW(sinh, std::sinh, 0.51);
  HERO_ROW(cosh, std::cosh, 0.51);
  HERO_ROW(expm1, std::expm1, 0.51);
  HERO_ROW(log1p, std::log1p, 0.51);
  HERO_ROW(log2, std::log2, 0.51);
  HERO_ROW(mish, mish, 0.51);
  HERO_ROW(logsigmoid, logsigmoid, 0.51);
  // IEEE demands these to the last bit.
  HERO_ROW(sqrt, std::sqrt, 0.5);
  HERO_ROW(floor, std::floor, 0.5);
  HERO_ROW(round, std::rint, 0.5);
  HERO_ROW(abs, std::fabs, 0.5);
#undef HERO_ROW
  visit(
      "softplus", [](float x) { return math::softplus(x, 1.5f, 1e30f); },
      [](Wide x) { return softplus(1.5L * x) / 1.5L; }, 0.51);
  visit(
      "pow(x, 2.5)", [](float x) { return math::pow(x, 2.5f); },
      [](Wide x) { return std::pow(x, 2.5L); }, 0.51);
  visit(
      "pow(x, -3)", [](float x) { return math::pow(x, -3.0f); },
      [](Wide x) { return std::pow(x, -3.0L); }, 0.51);
  visit(
      "pow(1.1, x)", [](float x) { return math::pow(1.1f, x); },
      [](Wide x) { return std::pow(Wide{1.1f}, x); }, 0.51);
  visit(
      "atan2(x, -2.5)", [](float x) { return math::atan2(x, -2.5f); },
      [](Wide x) { return std::atan2(x, -2.5L); }, 0.51);
  visit(
      "atan2(1e-3, x)", [](float x) { return math::atan2(1e-3f, x); },
      [](Wide x) { return std::atan2(Wide{1e-3f}, x); }, 0.51);
  // Below -13 so little is left that the factor e^w is itself near the denormals.
  visit(
      "gelu", [](float x) { return math::gelu(x); }, gelu, 6.5);
  visit(
      "gelu_tanh", [](float x) { return math::gelu_tanh(x); }, gelu_tanh, 2.5);
}

/// What the two gelus allow themselves beside their bound; see their declarations.
double allowed(const std::string& name, float x, double bound) {
  if (name == "gelu" && x < -13.0f) return 1e30;
  if (name == "gelu_tanh" && x < -10.0f) return 1e30;
  if (name == "gelu_tanh" && x < -1.0f) {
    return 3.5 * (1 + static_cast<double>(std::fabs(gelu_exponent(x))) / 2);
  }
  return bound;
}

}  // namespace

TEST_CASE("float functions keep their stated bounds over all of float", "[core]") {
  std::vector<float> in;
  for (uint64_t b = 0; b < (uint64_t{1} << 32); b += 9973) {
    in.push_back(from_bits(static_cast<uint32_t>(b)));
  }
  // The sweep is even in the exponent; most of what people compute lies here.
  for (float x = -20.0f; x < 20.0f; x += 0.000377f) in.push_back(x);
  std::vector<float> out(in.size());
  for_each_function([&](const char* name, auto f, auto reference, double bound) {
    map(in.data(), out.data(), in.size(), f);
    double worst = 0;
    float where = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double error = ulps(out[i], reference(static_cast<Wide>(in[i])));
      const double share = error / allowed(name, in[i], bound);
      if (share > worst) worst = share, where = in[i];
    }
    INFO(name << " at " << where << " gives " << f(where));
    CHECK(worst <= 1.0);
  });
}

TEST_CASE("what gelu drops in its far tail is no more than it was at the cutoff", "[core]") {
  // Results grow in magnitude towards -1, so the most is dropped where dropping begins:
  // |gelu_tanh(-10)| = 1.2041e-37 and |gelu(-13.19)| = 6.6e-39.
  for (float x = -40.0f; x < -9.9f; x += 0.001f) {
    REQUIRE(std::fabs(math::gelu_tanh(x) - static_cast<float>(gelu_tanh(x))) < 1.205e-37f);
    if (x < -13.0f) {
      REQUIRE(std::fabs(math::gelu(x) - static_cast<float>(gelu(x))) < 1e-38f);
    }
  }
}

TEST_CASE("sine and cosine reduce every float, however large", "[core]") {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float x =
        from_bits(0x4b000000u + static_cast<uint32_t>(random() % 0x34800000u));  // [2^23, 2^128)
    REQUIRE(ulps(math::sin(x), std::sin(static_cast<Wide>(x))) < 0.5001);
    REQUIRE(ulps(math::cos(x), std::cos(static_cast<Wide>(x))) < 0.5001);
  }
}

TEST_CASE("a vector loop and single calls give the same bits at every length", "[core]") {
  std::mt19937 random(2);
  std::vector<float> in(131), out(131);
  for (float& x : in) x = from_bits(static_cast<uint32_t>(random()));
  for (std::size_t i = 0; i < in.size(); i += 2) {
    in[i] = static_cast<float>(static_cast<double>(random()) * 0x1p-28 - 8.0);  // ordinary ones
  }
  for_each_function([&](const char* name, auto f, auto, double) {
    INFO(name);
    std::vector<uint32_t> alone;
    for (const float x : in) {
      volatile float one = x;
      volatile float result = f(one);
      alone.push_back(bits(result));
    }
    std::size_t differing = 0;
    for (std::size_t n = 1; n <= in.size(); ++n) {
      const std::size_t offset = in.size() - n;
      map(in.data() + offset, out.data(), n, f);
      for (std::size_t i = 0; i < n; ++i) {
        const bool both_nan = std::isnan(out[i]) && std::isnan(from_bits(alone[offset + i]));
        differing += bits(out[i]) != alone[offset + i] && !both_nan ? 1u : 0u;
      }
    }
    CHECK(differing == 0);
  });
}

TEST_CASE("zeros, infinities, NaN and denormals come out as IEEE has them", "[core]") {
  auto same = [](float got, float want) {
    return std::isnan(want) ? std::isnan(got) : bits(got) == bits(want);
  };
#define HERO_SAME(expression, want) CHECK(same(expression, want))
  HERO_SAME(math::exp_in_vectors(-kInf), 0.0f);
  HERO_SAME(math::exp_in_vectors(kInf), kInf);
  HERO_SAME(math::exp_in_vectors(0.0f), 1.0f);
  HERO_SAME(math::exp_in_vectors(89.0f), kInf);
  HERO_SAME(math::exp_in_vectors(-103.5f), kDenormal);
  HERO_SAME(math::exp2(-149.0f), kDenormal);
  HERO_SAME(math::exp2(10.0f), 1024.0f);
  HERO_SAME(math::expm1(-0.0f), -0.0f);
  HERO_SAME(math::expm1(kDenormal), kDenormal);
  HERO_SAME(math::expm1(-kInf), -1.0f);
  HERO_SAME(math::log(0.0f), -kInf);
  HERO_SAME(math::log(-0.0f), -kInf);
  HERO_SAME(math::log(-1.0f), kNan);
  HERO_SAME(math::log(kInf), kInf);
  HERO_SAME(math::log(-kInf), kNan);
  HERO_SAME(math::log(1.0f), 0.0f);
  HERO_SAME(math::log2(kDenormal), -149.0f);
  HERO_SAME(math::log2(-1.0f), kNan);
  HERO_SAME(math::log1p(-1.0f), -kInf);
  HERO_SAME(math::log1p(-0.0f), -0.0f);
  HERO_SAME(math::log1p(-1.5f), kNan);
  for (float (*odd)(float) :
       {static_cast<float (*)(float)>(math::sin), static_cast<float (*)(float)>(math::tan),
        static_cast<float (*)(float)>(math::atan), static_cast<float (*)(float)>(math::sinh),
        static_cast<float (*)(float)>(math::tanh)}) {
    HERO_SAME(odd(-0.0f), -0.0f);
    HERO_SAME(odd(0.0f), 0.0f);
    HERO_SAME(odd(kDenormal), kDenormal);
    HERO_SAME(odd(kNan), kNan);
  }
  HERO_SAME(math::sin(kInf), kNan);
  HERO_SAME(math::cos(-kInf), kNan);
  HERO_SAME(math::tanh(kInf), 1.0f);
  HERO_SAME(math::tanh(-kInf), -1.0f);
  HERO_SAME(math::erf(-kInf), -1.0f);
  HERO_SAME(math::erf(-0.0f), -0.0f);
  HERO_SAME(math::sinh(-kInf), -kInf);
  HERO_SAME(math::cosh(-kInf), kInf);
  HERO_SAME(math::sigmoid(-kInf), 0.0f);
  HERO_SAME(math::sigmoid(kInf), 1.0f);
  HERO_SAME(math::logsigmoid(-kInf), -kInf);
  HERO_SAME(math::softplus(30.0f, 1.0f, 20.0f), 30.0f);
  for (float (*gate)(float) :
       {static_cast<float (*)(float)>(math::silu), static_cast<float (*)(float)>(math::mish),
        static_cast<float (*)(float)>(math::gelu),
        static_cast<float (*)(float)>(math::gelu_tanh)}) {
    HERO_SAME(gate(-kInf), -0.0f);
    HERO_SAME(gate(kInf), kInf);
    HERO_SAME(gate(0.0f), 0.0f);
    HERO_SAME(gate(kNan), kNan);
  }
  HERO_SAME(math::round(2.5f), 2.0f);
  HERO_SAME(math::sign(-0.0f), -0.0f);
  HERO_SAME(math::sign(-3.0f), -1.0f);
  HERO_SAME(math::sign(kNan), kNan);
  HERO_SAME(math::rsqrt(0.0f), kInf);
#undef HERO_SAME
}

TEST_CASE("pow and atan2 agree with libm on every pair of special values", "[core]") {
  const float values[] = {0.0f,        0.5f,  1.0f,   1.5f,      2.0f, 3.0f,          16777215.0f,
                          16777216.0f, 1e30f, 1e-30f, kDenormal, kInf, 0x1.fffffep-1f};
  std::vector<float> all = {kNan};
  for (const float v : values) all.insert(all.end(), {v, -v});
  for (const float x : all) {
    for (const float y : all) {
      INFO(x << ", " << y);
      const Wide power = std::pow(static_cast<Wide>(x), static_cast<Wide>(y));
      CHECK(ulps(math::pow(x, y), power) <= 0.51);
      CHECK((std::isnan(power) || std::signbit(math::pow(x, y)) == std::signbit(power)));
      const Wide angle = std::atan2(static_cast<Wide>(x), static_cast<Wide>(y));
      CHECK(ulps(math::atan2(x, y), angle) <= 0.51);
      CHECK((std::isnan(angle) || std::signbit(math::atan2(x, y)) == std::signbit(angle)));
    }
  }
}

TEST_CASE("double functions of our own keep their stated bounds", "[core]") {
  std::mt19937_64 random(3);
  const auto check_range = [&](const char* name, auto f, auto reference, double lo, double hi,
                               double bound) {
    double worst = 0;
    double where = 0;
    for (int i = 0; i < 50000; ++i) {
      double x = lo + (hi - lo) * static_cast<double>(random() >> 11) * 0x1p-53;
      if (i % 2 == 1) x = std::ldexp(x, -static_cast<int>(random() % 40));
      const double error = ulps(f(x), reference(static_cast<Wide>(x)));
      if (error > worst) worst = error, where = x;
    }
    INFO(name << " at " << where);
    CHECK(worst <= bound);
  };
#define HERO_RANGE(name, reference, lo, hi, bound)                                                \
  check_range(                                                                                    \
      #name, [](double x) { return math::name(x); }, [](Wide x) { return reference(x); }, lo, hi, \
      bound)
  HERO_RANGE(exp_in_vectors, std::exp, -708, 709.7, 0.7);
  HERO_RANGE(exp_in_vectors, std::exp, -1, 1, 0.7);
  HERO_RANGE(exp_in_vectors, std::exp, -750, -708, 1.0);
  HERO_RANGE(tanh, std::tanh, -25, 25, 1.5);
  HERO_RANGE(tanh, std::tanh, -1, 1, 1.5);
  HERO_RANGE(exp2, std::exp2, -1080, 1030, 1.0);
  HERO_RANGE(erf, std::erf, -7, 7, 1.5);
  HERO_RANGE(erfc, std::erfc, -7, 28, 4.0);
  HERO_RANGE(acosh, std::acosh, 1, 1e9, 3.0);
  HERO_RANGE(acosh, std::acosh, 1, 3, 3.0);
  HERO_RANGE(lgamma, std::lgamma, 0, 40, 3.0);
  HERO_RANGE(lgamma, std::lgamma, 0, 1e300, 3.0);
  // Compositions: five roundings, each up to one unit of the result's last place.
  HERO_RANGE(sigmoid, sigmoid, -700, 40, 5.0);
  HERO_RANGE(sigmoid_in_vectors, sigmoid, -700, 40, 5.0);
  HERO_RANGE(silu, silu, -700, 40, 5.0);
  HERO_RANGE(mish, mish, -700, 50, 5.0);
  HERO_RANGE(gelu, gelu, -36, 10, 5.0);            // below, erfc is near the denormals
  HERO_RANGE(gelu_tanh, gelu_tanh, -21, 20, 5.0);  // below, e^-2u nears the largest double
#undef HERO_RANGE
  check_range(
      "softplus", [](double x) { return math::softplus(x, 1.5, 1e9); },
      [](Wide x) { return softplus(1.5L * x) / 1.5L; }, -400, 400, 5.0);
  check_range(
      "logsigmoid", [](double x) { return math::logsigmoid(x); },
      [](Wide x) { return -softplus(-x); }, -700, 700, 5.0);
}

TEST_CASE("double functions of two arguments, of negative ones and at special values", "[core]") {
  std::mt19937_64 random(4);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto exponent = [&](int range) {
    return static_cast<int>(random() % static_cast<uint64_t>(range));
  };
  double worst = 0;
  for (int i = 0; i < 50000; ++i) {
    const double x = std::ldexp(uniform(), exponent(2100) - 1070);
    const double y = std::ldexp(x * (0.5 + uniform()), exponent(60) - 30);
    worst = std::max(
        worst, ulps(math::hypot(x, y), std::hypot(static_cast<Wide>(x), static_cast<Wide>(y))));
  }
  CHECK(worst <= 1.0);
  // ln |Gamma| of negative numbers: of the larger of the two parts that it is a difference of
  worst = 0;
  const Wide pi = std::acos(Wide{-1});
  for (int i = 0; i < 50000; ++i) {
    const double x = -60.0 * uniform();
    const Wide wide = x, sine = std::sin(pi * (wide - std::rint(wide)));
    const Wide larger =
        std::max(std::fabs(std::lgamma(-wide)), std::fabs(std::log(pi / std::fabs(wide * sine))));
    const double unit = std::ldexp(1.0, std::ilogb(static_cast<double>(larger)) - 52);
    worst =
        std::max(worst, static_cast<double>(std::fabs(math::lgamma(x) - std::lgamma(wide))) / unit);
  }
  CHECK(worst <= 7.0);

  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  CHECK(math::erf(kInfinity) == 1.0);
  CHECK(math::erf(-kInfinity) == -1.0);
  CHECK(std::signbit(math::erf(-0.0)));
  CHECK(math::erfc(-kInfinity) == 2.0);
  CHECK(math::erfc(kInfinity) == 0.0);
  for (const double x : {0.0, -0.0}) CHECK(math::exp_in_vectors(x) == 1.0);
  for (const double x : {709.79, 1e308, kInfinity}) CHECK(math::exp_in_vectors(x) == kInfinity);
  for (const double x : {-745.2, -1e308, -kInfinity}) CHECK(math::exp_in_vectors(x) == 0.0);
  CHECK(math::exp_in_vectors(-745.0) == std::numeric_limits<double>::denorm_min());
  CHECK(std::isnan(math::exp_in_vectors(kNotANumber)));
  CHECK(math::exp2(-1074.0) == std::numeric_limits<double>::denorm_min());
  CHECK(math::exp2(1023.0) == 0x1p1023);
  CHECK(math::exp2(kInfinity) == kInfinity);
  CHECK(math::exp2(-kInfinity) == 0.0);
  CHECK(math::acosh(1.0) == 0.0);
  CHECK(math::acosh(kInfinity) == kInfinity);
  for (const double x : {0.0, -0.0, -3.0, kInfinity, -kInfinity})
    CHECK(math::lgamma(x) == kInfinity);
  for (const double x : {1.0, 2.0}) CHECK(math::lgamma(x) == 0.0);
  for (const double x : {kInfinity, -kInfinity}) {
    CHECK(math::hypot(x, kNotANumber) == kInfinity);
    CHECK(math::hypot(kNotANumber, x) == kInfinity);
  }
  CHECK(math::hypot(0.0, -0.0) == 0.0);
  CHECK(math::hypot(1.5e308, 1.5e308) == kInfinity);
  for (const double x : {math::erf(kNotANumber), math::erfc(kNotANumber), math::exp2(kNotANumber),
                         math::acosh(kNotANumber), math::acosh(0.5), math::lgamma(kNotANumber),
                         math::hypot(kNotANumber, 0.0), math::hypot(1.0, kNotANumber),
                         math::hypot(0.0, kNotANumber)}) {
    CHECK(std::isnan(x));
  }
}
