#pragma once
// Special functions, as torch.special has them: error functions, gamma functions, entropies, Bessel
// functions. They follow the rules of elementwise.h, and convert integers to float32. Those that
// are members of Tensor too, erf() or lgamma(), are declared there.
#include <optional>

#include <hero/autograd/ops/elementwise/elementwise.h>

namespace hero {

/// \name Error functions and the normal distribution
/// \{
/// The probability of numbers below x in the standard normal distribution.
Tensor ndtr(const Tensor& x);
/// log(ndtr(x)), also where ndtr() is 0 or 1.
Tensor log_ndtr(const Tensor& x);
/// The inverse of ndtr() on [0, 1]; NaN outside.
Tensor ndtri(const Tensor& x);
/// e^(x^2) erfc(x), also where erfc() is 0.
Tensor erfcx(const Tensor& x);
/// \}

/// \name Logarithms and entropies
/// \{
/// log(x / (1 - x)). With eps, x is first clamped to [eps, 1 - eps]; clamped elements have the
/// gradient 0.
Tensor logit(const Tensor& x, std::optional<double> eps = {});
Tensor xlogy(Scalar x, const Tensor& y);
/// x log(1 + y), and 0 if x is 0 and y is not NaN.
Tensor xlog1py(const Tensor& x, const Tensor& y);
Tensor xlog1py(const Tensor& x, Scalar y);
Tensor xlog1py(Scalar x, const Tensor& y);
/// -x log(x), and 0 at 0; -inf below it.
Tensor entr(const Tensor& x);
/// \}

/// \name Gamma and zeta functions
/// \{
/// The n-th derivative of digamma(), for n >= 0; -inf or inf at the integers
/// up to 0.
Tensor polygamma(int64_t n, const Tensor& x);
/// Hurwitz's zeta function, the sum over k >= 0 of (k + q)^-s, for s > 1; differentiable in q
/// alone, and an Error if s requires gradients.
Tensor zeta(const Tensor& s, const Tensor& q);
Tensor zeta(const Tensor& s, Scalar q);
Tensor zeta(Scalar s, const Tensor& q);
/// The logarithm of the gamma function of p dimensions, p >= 1: the sum over i < p of lgamma(a - i
/// / 2), and p (p - 1) / 4 log(pi).
Tensor multigammaln(const Tensor& a, int64_t p);
/// \}

/// \name Incomplete gamma functions
/// They are differentiable in x alone; an Error if a requires gradients. NaN if one of a and x is
/// negative, or both are 0 or infinite.
/// \{
/// The integral of t^(a - 1) e^-t from 0 to x, divided by the integral from 0 to infinity.
Tensor gammainc(const Tensor& a, const Tensor& x);
/// The same integral from x to infinity, divided by that from 0 to infinity: 1 - gammainc(a, x).
Tensor gammaincc(const Tensor& a, const Tensor& x);
/// \}

/// \name Bessel functions
/// \{
/// The modified Bessel function of the first kind, of order 1.
Tensor i1(const Tensor& x);
/// The modified Bessel functions of the orders 0 and 1, divided by e^|x|.
Tensor i0e(const Tensor& x);
Tensor i1e(const Tensor& x);
/// The Bessel functions of the first kind.
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);
/// The Bessel functions of the second kind: -inf at 0, NaN below.
Tensor bessel_y0(const Tensor& x);
Tensor bessel_y1(const Tensor& x);
/// \}

/// \name Second names, as PyTorch has them
/// \{
inline Tensor igamma(const Tensor& a, const Tensor& x) { return gammainc(a, x); }
inline Tensor igammac(const Tensor& a, const Tensor& x) { return gammaincc(a, x); }
inline Tensor mvlgamma(const Tensor& a, int64_t p) { return multigammaln(a, p); }
/// \}

}  // namespace hero
