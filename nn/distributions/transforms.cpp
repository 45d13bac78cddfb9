#include <cmath>
#include <numbers>
#include <typeinfo>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

bool Transform::same_as(const Transform& other) const { return typeid(*this) == typeid(other); }

std::pair<double, double> Transform::range() const { return {-kInfinity, kInfinity}; }
std::pair<double, double> ExpTransform::range() const { return {0.0, kInfinity}; }
std::pair<double, double> SigmoidTransform::range() const { return {0.0, 1.0}; }
std::pair<double, double> TanhTransform::range() const { return {-1.0, 1.0}; }

AffineTransform::AffineTransform(const Tensor& l, const Tensor& s) : loc(l), scale(s) {
  check_all(scale != 0, scale, "AffineTransform: scale must not be 0");
}

AffineTransform::AffineTransform(double l, double s)
    : AffineTransform(tensor(l, {.dtype = kFloat64}), tensor(s, {.dtype = kFloat64})) {}

namespace {

// A number as x has them: in its dtype, on its device. Tensors with dimensions stay as they are.
Tensor fitted(const Tensor& parameter, const Tensor& x) {
  return parameter.ndim() > 0 ? parameter : parameter.to(x.dtype()).to(x.device());
}

}  // namespace

Tensor AffineTransform::operator()(const Tensor& x) const {
  return fitted(loc, x) + fitted(scale, x) * x;
}
Tensor AffineTransform::inverse(const Tensor& y) const {
  return (y - fitted(loc, y)) / fitted(scale, y);
}

Tensor AffineTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const {
  const Tensor logarithm = log(abs(fitted(scale, x)));
  return expand(logarithm, broadcast_shapes("AffineTransform", logarithm.shape(), x.shape()));
}

Tensor AffineTransform::sign() const { return hero::sign(scale); }

bool AffineTransform::same_as(const Transform& other) const {
  const auto* affine = dynamic_cast<const AffineTransform*>(&other);
  return affine != nullptr && equal(loc, affine->loc) && equal(scale, affine->scale);
}

Tensor ExpTransform::operator()(const Tensor& x) const { return exp(x); }
Tensor ExpTransform::inverse(const Tensor& y) const { return log(y); }
Tensor ExpTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const { return x; }

Tensor SigmoidTransform::operator()(const Tensor& x) const { return within_unit(sigmoid(x)); }

Tensor SigmoidTransform::inverse(const Tensor& y) const {
  const Tensor inside = within_unit(y);
  return log(inside) - log1p(-inside);
}

Tensor SigmoidTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const {
  return logsigmoid(x) + logsigmoid(-x);
}

Tensor TanhTransform::operator()(const Tensor& x) const { return tanh(x); }
Tensor TanhTransform::inverse(const Tensor& y) const { return atanh(y); }

// log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), which does not cancel for large x.
Tensor TanhTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const {
  return 2 * (std::numbers::ln2 - x + logsigmoid(2 * x));
}

}  // namespace hero::distributions
