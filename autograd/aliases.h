#pragma once
// Second names that PyTorch has for operations. Errors call an operation by its first name.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

/// \name Arithmetic: add, sub, mul, div, neg, abs, clamp, maximum, minimum
/// \{
inline Tensor subtract(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor subtract(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor subtract(const Tensor& a, const Tensor& b, Scalar alpha) { return sub(a, b, alpha); }
inline Tensor multiply(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor multiply(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor divide(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor divide(const Tensor& a, const Tensor& b, Rounding rounding) {
  return div(a, b, rounding);
}
inline Tensor divide(const Tensor& a, Scalar b, Rounding rounding) { return div(a, b, rounding); }
inline Tensor true_divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor true_divide(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor negative(const Tensor& x) { return neg(x); }
inline Tensor absolute(const Tensor& x) { return abs(x); }
inline Tensor clip(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {}) {
  return clamp(x, low, high);
}
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
/// \}

/// \name Comparisons: lt, le, gt, ge, ne
/// \{
inline Tensor less(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor less(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor less_equal(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor less_equal(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor greater(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor greater(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor greater_equal(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor not_equal(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor not_equal(const Tensor& a, Scalar b) { return ne(a, b); }
/// \}

/// \name Functions: asin, acos, atan, asinh, acosh, atanh, atan2, sigmoid, lgamma, digamma,
/// gammainc, gammaincc, multigammaln, sign, trapezoid
/// \{
inline Tensor arcsin(const Tensor& x) { return asin(x); }
inline Tensor arccos(const Tensor& x) { return acos(x); }
inline Tensor arctan(const Tensor& x) { return atan(x); }
inline Tensor arcsinh(const Tensor& x) { return asinh(x); }
inline Tensor arccosh(const Tensor& x) { return acosh(x); }
inline Tensor arctanh(const Tensor& x) { return atanh(x); }
inline Tensor arctan2(const Tensor& a, const Tensor& b) { return atan2(a, b); }
inline Tensor expit(const Tensor& x) { return sigmoid(x); }
inline Tensor gammaln(const Tensor& x) { return lgamma(x); }
inline Tensor psi(const Tensor& x) { return digamma(x); }
inline Tensor igamma(const Tensor& a, const Tensor& x) { return gammainc(a, x); }
inline Tensor igammac(const Tensor& a, const Tensor& x) { return gammaincc(a, x); }
inline Tensor mvlgamma(const Tensor& a, int64_t p) { return multigammaln(a, p); }
inline Tensor sgn(const Tensor& x) { return sign(x); }
inline Tensor trapz(const Tensor& y, double dx = 1.0, int64_t dim = -1) {
  return trapezoid(y, dx, dim);
}
inline Tensor trapz(const Tensor& y, const Tensor& x, int64_t dim = -1) {
  return trapezoid(y, x, dim);
}
/// \}

/// \name Shapes and products: cat, vstack, split, outer, multi_dot, inv, pinv, householder_product
/// \{
inline Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0) {
  return cat(tensors, dim);
}
inline Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0) {
  return cat(tensors, dim);
}
inline Tensor row_stack(const std::vector<Tensor>& tensors) { return vstack(tensors); }
inline Tensor ger(const Tensor& a, const Tensor& b) { return outer(a, b); }
inline Tensor chain_matmul(const std::vector<Tensor>& matrices) { return multi_dot(matrices); }
inline std::vector<Tensor> split_with_sizes(const Tensor& x, const std::vector<int64_t>& sizes,
                                            int64_t dim = 0) {
  return split(x, sizes, dim);
}
inline Tensor adjoint(const Tensor& a) { return a.mT(); }
inline Tensor inverse(const Tensor& a) { return inv(a); }
inline Tensor pinverse(const Tensor& a) { return pinv(a); }
inline Tensor orgqr(const Tensor& a, const Tensor& tau) { return householder_product(a, tau); }
/// \}

}  // namespace hero
