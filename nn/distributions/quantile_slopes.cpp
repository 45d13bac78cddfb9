#include <algorithm>
#include <cmath>

#include <hero/core/kernels/math_double.h>
#include <hero/core/kernels/math_special.h>
#include <hero/nn/distributions/quantile_slopes.h>

namespace hero::distributions {

namespace {

// A number with its derivative with respect to a parameter.
struct Dual {
  double value, slope = 0.0;
};
Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
Dual operator/(Dual a, Dual b) {
  const double ratio = a.value / b.value;
  return {ratio, (a.slope - ratio * b.slope) / b.value};
}

// A continued fraction by Lentz's method (1976), with its derivative.
struct Fraction {
  Dual c, d, h;

  // The next partial quotient: numerator over denominator.
  Dual step(Dual numerator, Dual denominator) {
    d = Dual{1.0} / away_from_zero(denominator + numerator * d);
    c = away_from_zero(denominator + numerator / c);
    const Dual factor = c * d;
    h = h * factor;
    return factor;
  }
  static Dual away_from_zero(Dual x) {
    return std::fabs(x.value) < 1e-290 ? Dual{1e-290, x.slope} : x;
  }
  // After a factor that changes neither the fraction nor its derivative.
  bool settled(Dual factor) const {
    return std::fabs(factor.value - 1.0) < 2e-16 &&
           std::fabs(factor.slope * h.value) <= 2e-16 * std::fabs(h.slope);
  }
};

constexpr int kMost = 1000000;  // far more than any fraction or series takes
constexpr double kLarge = 100;  // from here on tails of gamma are integrated

// What lies on one side of x, over x times the density there, and what that adds to its derivative:
// value = side / (x f(x)), and the derivative of side over (x f(x)) is log_part * value + slope.
struct Side {
  bool below;  ///< x is below the middle, and this is the side below it
  double log_part;
  Dual tail;
};

// P(a, x) = x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ..): DLMF 8.7.1.
Side gamma_series(double a, double x, double log_x) {
  double term = 1.0, harmonic = 0.0;
  Dual sum{1.0, 0.0};
  for (int n = 1; n < kMost; ++n) {
    term *= x / (a + n);
    harmonic += 1.0 / (a + n);
    sum.value += term;
    sum.slope -= term * harmonic;
    if (term * harmonic <= 1e-17 * std::fabs(sum.slope) && x < a + n) break;
  }
  return {true, log_x - math::digamma(a + 1.0), {sum.value / a, sum.slope / a}};
}

// Gamma(a, x) = x^a e^-x / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ..)): DLMF 8.9.2, contracted.
Side gamma_fraction(double a, double x, double log_x) {
  Dual denominator{x + 1.0 - a, -1.0};
  Fraction f{{1e290}, Dual{1.0} / denominator, Dual{1.0} / denominator};
  for (int n = 1; n < kMost; ++n) {
    denominator.value += 2.0;
    if (f.settled(f.step({n * (a - n), static_cast<double>(n)}, denominator))) break;
  }
  return {false, log_x - math::digamma(a), f.h};
}

// For large a the integral of the side itself, in t = x (1 + u): of exp(-x u) (1 + u)^(a - 1), DLMF
// 8.6.4, from u = 0 to where it has fallen by e^-38. Four times 16 points of Gauss and Legendre.
Side gamma_integral(double a, double x) {
  constexpr double kNodes[8] = {0.095012509837637440185, 0.28160355077925891323,
                                0.45801677765722738634,  0.61787624440264374845,
                                0.7554044083550030339,   0.86563120238783174388,
                                0.94457502307323257608,  0.9894009349916499326};
  constexpr double kWeights[8] = {0.18945061045506849629,  0.18260341504492358887,
                                  0.16915651939500253819,  0.14959598881657673208,
                                  0.12462897125553387205,  0.09515851168249278481,
                                  0.062253523938647892863, 0.027152459411754094852};
  const bool below = x < a;
  const double sign = below ? -1.0 : 1.0, slope = std::max(sign * (x - a + 1.0), 0.0);
  const auto exponent = [&](double u) { return (a - 1.0) * std::log1p(u) - x * u; };
  double end = 76.0 / (slope + std::sqrt(slope * slope + 76.0 * (a - 1.0)));
  while (end < 0.9 && exponent(sign * end) > -38.0) end *= 1.1;
  while (!below && exponent(end) > -38.0) end *= 1.1;
  if (below) end = std::min(end, 1.0);
  Dual sum{0.0, 0.0};
  for (int piece = 0; piece < 4; ++piece) {
    for (int i = 0; i < 16; ++i) {
      const double node = i < 8 ? kNodes[i] : -kNodes[i - 8];
      const double u = sign * end * (piece + 0.5 + 0.5 * node) / 4.0;
      const double part = kWeights[i % 8] * std::exp(exponent(u));
      sum = sum + Dual{part, part * std::log1p(u)};
    }
  }
  // log x - digamma(a), the latter by its asymptotic series: A&S 6.3.18.
  const double z = 1.0 / (a * a);
  const double rest = 0.5 / a + z * (1.0 / 12 - z * (1.0 / 120 - z / 252));
  return {below, std::log1p((x - a) / a) + rest, sum * Dual{end / 8.0}};
}

Side gamma_side(double a, double log_x) {
  const double x = std::exp(log_x);
  if (a > kLarge) return gamma_integral(a, x);
  return x <= a + 1.0 ? gamma_series(a, x, log_x) : gamma_fraction(a, x, log_x);
}

double slope_of(const Side& side) {
  const double derivative = side.log_part * side.tail.value + side.tail.slope;
  return side.below ? -derivative : derivative;
}

// digamma(a + b) - digamma(a), also where b is small beside a: by recurrence up to 10, then the
// difference of the asymptotic series (A&S 6.3.5 and 6.3.18).
double digamma_step(double a, double b) {
  double sum = 0.0;
  for (; a < 10.0; a += 1.0) sum += b / (a * (a + b));
  const auto series = [](double x) {
    const double z = 1.0 / (x * x);
    const double c[] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                        1.0 / 252, -1.0 / 120,     1.0 / 12};
    double s = c[0];
    for (int i = 1; i < 7; ++i) s = s * z + c[i];
    return s * z;
  };
  return sum + std::log1p(b / a) + 0.5 * b / (a * (a + b)) + (series(a) - series(a + b));
}

// I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) / (1 + d1 / (1 + d2 / ..)): DLMF 8.17.22.
Dual beta_fraction(Dual a, Dual b, double x) {
  const Dual sum = a + b;
  const Dual first = Dual{1.0} / (Dual{1.0} + Dual{-x} * sum / (a + Dual{1.0}));
  Fraction f{{1.0}, first, first};
  for (int m = 1; m < kMost; ++m) {
    const Dual whole{static_cast<double>(m)}, at = a + Dual{2.0 * m};
    f.step(whole * (b + Dual{-1.0 * m}) * Dual{x} / ((at + Dual{-1.0}) * at), {1.0});
    const Dual before = f.h;
    const Dual factor =
        f.step(Dual{-x} * (a + whole) * (sum + whole) / (at * (at + Dual{1.0})), {1.0});
    if (f.settled(factor) && std::fabs(f.h.slope - before.slope) <= 4e-16 * std::fabs(f.h.slope)) {
      break;
    }
  }
  return f.h;
}

}  // namespace

double gamma_weight(double a, double log_x) {
  const double x = std::exp(log_x);
  if (a <= kLarge) return std::exp(a * log_x - x - math::lgamma(a));
  const double m = (x - a) / a, z = 1.0 / (a * a);
  const double stirling = (1.0 / 12 - z * (1.0 / 360 - z / 1260)) / a;
  return std::sqrt(a / 6.283185307179586) * std::exp(a * (std::log1p(m) - m) - stirling);
}

double gamma_below(double a, double log_x) {
  if (log_x == HUGE_VAL) return 1.0;
  const Side side = gamma_side(a, log_x);
  const double part = gamma_weight(a, log_x) * side.tail.value;
  return side.below ? part : 1.0 - part;
}

double gamma_slope(double a, double log_x) { return slope_of(gamma_side(a, log_x)); }

double beta_slope(double a, double b, double x, double y) {
  const double log_x = y < 0.5 ? std::log1p(-y) : std::log(x);
  const double log_part = log_x + digamma_step(a, b);
  if (x < (a + 1.0) / (a + b + 2.0)) {
    const Dual f = beta_fraction({a, 1.0}, {b, 0.0}, x);
    return slope_of({true, log_part - 1.0 / a, {f.value / a, f.slope / a}});
  }
  const Dual f = beta_fraction({b, 0.0}, {a, 1.0}, y);
  return slope_of({false, log_part, {f.value / b, f.slope / b}});
}

}  // namespace hero::distributions
