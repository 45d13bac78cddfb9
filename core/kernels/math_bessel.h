#pragma once
// Bessel functions of double, host and device. The coefficients are those of Chebyshev's
// polynomials, by interpolation at their nodes with 60 digits. Errors are a few 1e-16 of the
// result, or, of J and Y, which have zeros, of the larger one of it and the size of their waves.
#include <cmath>
#include <limits>

#include <hero/core/kernels/config.h>

namespace hero::math {

namespace detail {

/// The sum of c[k] T_k(t) for t in [-1, 1], by Clenshaw's recurrence.
template <int N>
HERO_HD inline double chebyshev(double t, const double (&c)[N]) {
  double b0 = 0.0, b1 = 0.0;
  for (int k = N - 1; k > 0; --k) {
    const double next = 2.0 * t * b0 - b1 + c[k];
    b1 = b0;
    b0 = next;
  }
  return t * b0 - b1 + c[0];
}

/// e^-x I0(x) for x = 4 + 4 t in [0, 8].
HERO_HD inline double i0_near(double t) {
  const double c[] = {
      0x1.5a84e9035a22ap-2,  -0x1.37febc057cd8dp-2,  0x1.5f7ac77ac88c0p-3,  -0x1.84b70342d06eap-4,
      0x1.93e8acea8a32dp-5,  -0x1.84e9ef121b6f0p-6,  0x1.59961f3dde3ddp-7,  -0x1.1b65e201aa849p-8,
      0x1.adc758a12100ep-10, -0x1.2e2fd1f15eb52p-11, 0x1.8b51b74107cabp-13, -0x1.e2b2659c41d5ap-15,
      0x1.13f58be9a2859p-16, -0x1.2866fcba56427p-18, 0x1.2bf24978cf4acp-20, -0x1.1ec638f227f8dp-22,
      0x1.03b769d4d6435p-24, -0x1.beaf68c0b30abp-27, 0x1.6d903a454cb34p-29, -0x1.1d4fe13ae9556p-31,
      0x1.a98becc743c10p-34, -0x1.2fc957a946abcp-36, 0x1.9fe2fe19bd324p-39, -0x1.1164c62ee1af0p-41,
      0x1.59b464b262627p-44, -0x1.a5022c297fbebp-47, 0x1.ee6d893f65ebap-50, -0x1.184eb721ebbb4p-52,
      0x1.33362977da589p-55, -0x1.45cb72134d0efp-58};
  return chebyshev(t, c);
}
/// e^-x sqrt(x) I0(x) for x = 16 / (1 + t) from 8 on.
HERO_HD inline double i0_far(double t) {
  const double c[] = {0x1.9be62aca809cbp-2,   0x1.b998ca2e59049p-9,   0x1.20fa378999e52p-14,
                      0x1.8412bc101c586p-19,  0x1.b8007d9cd616ep-23,  0x1.8569280d6d56dp-26,
                      0x1.d2c64a9225b87p-29,  0x1.0f9ccc0f46f75p-31,  0x1.a24feabe8004fp-37,
                      -0x1.1511d08397425p-35, -0x1.d0fd7357e7bf2p-37, -0x1.f904303178d66p-40,
                      0x1.94347fa268cecp-41,  0x1.b1c8c6b83c073p-42,  0x1.156ff0d5fc545p-46,
                      -0x1.75d99cf68bb32p-45, -0x1.583fe7e65629ap-47, 0x1.12a919094e6d7p-48,
                      0x1.fee7da3eafb1fp-50,  -0x1.8aee7d908de38p-52, -0x1.4600babd21fe4p-52,
                      0x1.3f3dd076041cdp-55,  0x1.9be1812d98421p-55,  -0x1.646da66119130p-58,
                      -0x1.0adb754ca8b19p-57};
  return chebyshev(t, c);
}
/// e^-x I1(x) / x for x = 4 + 4 t in [0, 8].
HERO_HD inline double i1_near(double t) {
  const double c[] = {
      0x1.02a63724a7ffap-3,  -0x1.694d10469192ep-3,  0x1.a46dad536f53cp-4,  -0x1.b1bbc537c9ebcp-5,
      0x1.951e3e7bb2349p-6,  -0x1.5a29f7913a26ap-7,  0x1.1065349d3a1b4p-8,  -0x1.8cc620b3cd4a4p-10,
      0x1.0c95db6c6df7dp-11, -0x1.533cad3d694fep-13, 0x1.911b542c70d0bp-15, -0x1.bd5f9b8debbcfp-17,
      0x1.d1c4ed511afc5p-19, -0x1.cc0798363992ap-21, 0x1.ae344b347d108p-23, -0x1.7dd3e24b8c3e8p-25,
      0x1.4258e02395010p-27, -0x1.0361b28ea67e6p-29, 0x1.8ea34b43fdf6cp-32, -0x1.2510397eb07dep-34,
      0x1.9cee2b21d3154p-37, -0x1.173835fb70366p-39, 0x1.6af784779d955p-42, -0x1.c628e1c8f0b3bp-45,
      0x1.11d7f0615290cp-47, -0x1.3eaaa7e0d1573p-50, 0x1.663e3e593bfacp-53, -0x1.857d0c38a0576p-56,
      0x1.99f2a0c3c4014p-59};
  return chebyshev(t, c);
}
/// e^-x sqrt(x) I1(x) for x = 16 / (1 + t) from 8 on.
HERO_HD inline double i1_far(double t) {
  const double c[] = {0x1.8ea18b55b1514p-2,   -0x1.3fda053fcdb4cp-7,  -0x1.cfd7f804aa9a6p-14,
                      -0x1.048df49ca0373p-18, -0x1.0dbfd2e9e5443p-22, -0x1.c415394bb46c1p-26,
                      -0x1.0790b9ad53528p-28, -0x1.334ca5423dd80p-31, -0x1.4dcf9d4504c0cp-36,
                      0x1.1e1a1f1587865p-35,  0x1.f101f653c457bp-37,  0x1.1e7d3f6439fa3p-39,
                      -0x1.953e1076ab493p-41, -0x1.cbc458e73e255p-42, -0x1.7a9482e6d22a0p-46,
                      0x1.80d3c26b3281ep-45,  0x1.776e1762d31e8p-47,  -0x1.12db5138afbc7p-48,
                      -0x1.0efcd8bc4d22ap-49, 0x1.7d68e5f04a2d1p-52,  0x1.55915fceb588ap-52,
                      -0x1.2806c9c773320p-55, -0x1.acea3b2532277p-55, 0x1.45b8aea87b950p-58,
                      0x1.1556db352e8e6p-57};
  return chebyshev(t, c);
}

// Below, t is x^2 / 32 - 1 for x in [0, 8], or 128 / x^2 - 1 from 8 on.

/// J0(x).
HERO_HD inline double j0_near(double t) {
  const double c[] = {0x1.4306e1f9314dbp-3,   -0x1.1dd989ce98ea2p-7,  0x1.0f8afb7d3a552p-2,
                      -0x1.7afa2e9c62a9ep-2,  0x1.43b8af58b7ffap-3,   -0x1.1dd989ce98ea2p-5,
                      0x1.3bd46ccab9da0p-8,   -0x1.e300651cd3ae3p-12, 0x1.104c067d74d17p-15,
                      -0x1.d8f811cd3e853p-20, 0x1.46c4a4b32aa3bp-24,  -0x1.703bda6758f6fp-29,
                      0x1.593076e904d04p-34,  -0x1.1192067e71726p-39, 0x1.73936aa3d0207p-45,
                      -0x1.b5729d242acaep-51, 0x1.c2c89ea282aaap-57};
  return chebyshev(t, c);
}
/// J1(x) / x.
HERO_HD inline double j1_near(double t) {
  const double c[] = {
      0x1.4bf5ae47a6150p-4,  -0x1.3119e17fdbffdp-3,  0x1.49b9fb3408e33p-3,  -0x1.52a8c7827daa8p-4,
      0x1.6bf2c1f5f71e1p-6,  -0x1.de030538b55b0p-9,  0x1.a8b56cedfe580p-12, -0x1.11188227a5012p-15,
      0x1.0a8a3a628fc7bp-19, -0x1.98f754605f635p-24, 0x1.fac17c7273311p-29, -0x1.030d00d42d6f4p-33,
      0x1.bcc0916376113p-39, -0x1.453d2b4e985cbp-44, 0x1.9a36afedba862p-50, -0x1.c2dff424052f8p-56};
  return chebyshev(t, c);
}
/// Y0(x) - 2 / pi ln(x) J0(x).
HERO_HD inline double y0_near(double t) {
  const double c[] = {-0x1.0f88700652ecbp-5,  -0x1.190fcad75eca2p-2,  0x1.6ea98ade961a1p-3,
                      0x1.0bd84f7777bd6p-2,   -0x1.6b1d515347a69p-3,  0x1.82a2a1c96271fp-5,
                      -0x1.dd9fb881100e6p-8,  0x1.8ad9320695af0p-11,  -0x1.d873fa854ed4dp-15,
                      0x1.ae5f9e7adde46p-19,  -0x1.35649a4058471p-23, 0x1.68b1c63f94e89p-28,
                      -0x1.5c457ea1daccep-33, 0x1.1b53ed8a54178p-38,  -0x1.89f1fa5209ce6p-44,
                      0x1.d9b425efafdd8p-50,  -0x1.f1a7711576130p-56};
  return chebyshev(t, c);
}
/// (Y1(x) - 2 / pi (ln(x) J1(x) - 1 / x)) / x.
HERO_HD inline double y1_near(double t) {
  const double c[] = {0x1.4ca997b04b826p-9,   -0x1.07927e87fd36bp-6,  -0x1.88db11a1e0337p-4,
                      0x1.59ea4fc627f66p-4,   -0x1.d020c3798a51ap-6,  0x1.5aadc0f38e31dp-8,
                      -0x1.504ea6f6291cdp-11, 0x1.cde014f53622dp-15,  -0x1.dadf80f6e35f9p-19,
                      0x1.7c45af600d3dcp-23,  -0x1.e8a21e8e1cb71p-28, 0x1.01c33ee943bc5p-32,
                      -0x1.c6f1d25aa2e2ap-38, 0x1.54fcf661706ffp-43,  -0x1.b7b8e4b5d24fcp-49,
                      0x1.ed24ebd671b40p-55,  -0x1.e58358b5996e3p-61};
  return chebyshev(t, c);
}
/// P of J0 = sqrt(2 / (pi x)) (P cos(z) - Q sin(z)), Y0 = sqrt(2 / (pi x)) (P sin(z) + Q cos(z)),
/// with z = x - pi / 4 (Abramowitz and Stegun, 9.2.5 and 9.2.6).
HERO_HD inline double p0_far(double t) {
  const double c[] = {0x1.ffb944543151ep-1,   -0x1.194ac5283c04ap-11, 0x1.9cbe8b7395851p-19,
                      -0x1.bc26938a82ce2p-25, 0x1.c03a8b38ca73cp-30,  -0x1.59ddcc28538a8p-34,
                      0x1.6baf23642c655p-38,  -0x1.e4a709e74825bp-42, 0x1.85b481672b1eep-45,
                      -0x1.6d432cb7153fep-48, 0x1.84fff80b613c2p-51,  -0x1.cdb3179595bbdp-54,
                      0x1.2cca86c6338d9p-56};
  return chebyshev(t, c);
}
/// x / 8 times Q of the same.
HERO_HD inline double q0_far(double t) {
  const double c[] = {
      -0x1.fdbbf76547cafp-7,  0x1.1ed40c7bf4761p-14, -0x1.8e1017183d060p-21, 0x1.34c3b3f0f3e19p-26,
      -0x1.8fc71e52a5280p-31, 0x1.7334b27ad2886p-35, -0x1.c34f407df8ba4p-39, 0x1.52763be90a889p-42,
      -0x1.2c827d7f6e2d5p-45, 0x1.329f0c1b6c666p-48, -0x1.5fa3147b301c9p-51, 0x1.bd9648f62c6b8p-54,
      -0x1.33cdb710c05d6p-56, 0x1.cab223df72976p-59, -0x1.6d757f20d1676p-61, 0x1.351cf3ac934b3p-63};
  return chebyshev(t, c);
}
/// P of J1 = sqrt(2 / (pi x)) (P cos(z) - Q sin(z)), Y1 = sqrt(2 / (pi x)) (P sin(z) + Q cos(z)),
/// with z = x - 3 pi / 4 (Abramowitz and Stegun, 9.2.5 and 9.2.6).
HERO_HD inline double p1_far(double t) {
  const double c[] = {0x1.003b2e82f5f12p+0,   0x1.d7545f75d7da9p-11,  -0x1.0b9505ce79bbap-18,
                      0x1.0953cdc0829efp-24,  -0x1.01454cf5d6ac0p-29, 0x1.83c5742be2cc3p-34,
                      -0x1.9171afe32fc02p-38, 0x1.088a8b6783e50p-41,  -0x1.a5ead8bea617fp-45,
                      0x1.88e8192bcb004p-48,  -0x1.a045d1e6aa4e8p-51, 0x1.ebf5d803cd896p-54,
                      -0x1.3f5b1671b84fbp-56};
  return chebyshev(t, c);
}
/// x / 8 times Q of the same.
HERO_HD inline double q1_far(double t) {
  const double c[] = {0x1.7f34213492af6p-5,   -0x1.93d0e4fa70662p-14, 0x1.eaa02bf61504bp-21,
                      -0x1.681617e8645adp-26, 0x1.c467999a69933p-31,  -0x1.9c37875f5ebc0p-35,
                      0x1.eeb91abca8164p-39,  -0x1.6f877e53fb185p-42, 0x1.43f8057a1761fp-45,
                      -0x1.48ac416e30219p-48, 0x1.772d4dd737bf2p-51,  -0x1.d994b1fddb9f0p-54,
                      0x1.46123a8bbc898p-56,  -0x1.e48d4f144b8b2p-59, 0x1.811d207bb2e69p-61};
  return chebyshev(t, c);
}

/// sqrt(2 / (pi x)) (p cos(z) - q sin(z)) for z = x - pi / 4: the angle is split, since x - pi / 4
/// would be rounded.
HERO_HD inline double wave(double x, double p, double q) {
  const double s = std::sin(x), c = std::cos(x);
  return (p * (c + s) - q * (s - c)) / std::sqrt(3.14159265358979323846 * x);
}
inline constexpr double kTwoOverPi = 0.63661977236758134308;
/// Y of an x that is not positive: -inf at 0, NaN below.
HERO_HD inline double y_at_most_0(double x) {
  return x == 0.0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace detail

/// e^-|x| I0(x) of the modified Bessel function I0.
HERO_HD inline double i0e(double x) {
  const double a = std::fabs(x);
  if (a < 1e-5) return std::exp(-a) * (1.0 + 0.25 * a * a);
  if (!(a > 8.0)) return detail::i0_near(a / 4.0 - 1.0);
  return detail::i0_far(16.0 / a - 1.0) / std::sqrt(a);
}
/// e^-|x| I1(x).
HERO_HD inline double i1e(double x) {
  const double a = std::fabs(x);
  if (!(a > 8.0)) return x * detail::i1_near(a / 4.0 - 1.0);
  return std::copysign(detail::i1_far(16.0 / a - 1.0) / std::sqrt(a), x);
}
/// e^|x| y, where the result may be finite although e^|x| is not.
HERO_HD inline double times_exp(double x, double y) {
  const double a = std::fabs(x);
  if (!(a > 700.0)) return std::exp(a) * y;
  const double infinity = std::numeric_limits<double>::infinity();
  if (a == infinity) return std::copysign(infinity, y);
  const double half = std::exp(a / 2.0);
  return half * (half * y);
}
HERO_HD inline double i0(double x) { return times_exp(x, i0e(x)); }
HERO_HD inline double i1(double x) { return times_exp(x, i1e(x)); }

HERO_HD inline double bessel_j0(double x) {
  const double a = std::fabs(x);
  if (a < 1e-5) return 1.0 - 0.25 * a * a;
  if (!(a > 8.0)) return detail::j0_near(a * a / 32.0 - 1.0);
  if (a == std::numeric_limits<double>::infinity()) return 0.0;
  const double r = 8.0 / a, t = 2.0 * r * r - 1.0;
  return detail::wave(a, detail::p0_far(t), r * detail::q0_far(t));
}
HERO_HD inline double bessel_j1(double x) {
  const double a = std::fabs(x);
  if (!(a > 8.0)) return x * detail::j1_near(a * a / 32.0 - 1.0);
  if (a == std::numeric_limits<double>::infinity()) return std::copysign(0.0, x);
  const double r = 8.0 / a, t = 2.0 * r * r - 1.0;
  // cos(z - pi / 2) = sin(z), sin(z - pi / 2) = -cos(z)
  const double value = detail::wave(a, r * detail::q1_far(t), -detail::p1_far(t));
  return x < 0.0 ? -value : value;
}
HERO_HD inline double bessel_y0(double x) {
  if (!(x > 0.0)) return detail::y_at_most_0(x);
  if (x <= 8.0) {
    const double t = x * x / 32.0 - 1.0;
    return detail::y0_near(t) + detail::kTwoOverPi * std::log(x) * detail::j0_near(t);
  }
  if (x == std::numeric_limits<double>::infinity()) return 0.0;
  const double r = 8.0 / x, t = 2.0 * r * r - 1.0;
  return detail::wave(x, r * detail::q0_far(t), -detail::p0_far(t));
}
HERO_HD inline double bessel_y1(double x) {
  if (!(x > 0.0)) return detail::y_at_most_0(x);
  if (x <= 8.0) {
    const double t = x * x / 32.0 - 1.0;
    return x * detail::y1_near(t) +
           detail::kTwoOverPi * (std::log(x) * x * detail::j1_near(t) - 1.0 / x);
  }
  if (x == std::numeric_limits<double>::infinity()) return 0.0;
  const double r = 8.0 / x, t = 2.0 * r * r - 1.0;
  return -detail::wave(x, detail::p1_far(t), r * detail::q1_far(t));
}

}  // namespace hero::math
