#include <cmath>
#include <numbers>
#include <typeinfo>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
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

// A number as a tensor of x's dtype on x's device. Tensors with dimensions are returned unchanged.
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

PowerTransform::PowerTransform(const Tensor& e) : exponent(e) {
  check_all(exponent != 0, exponent, "PowerTransform: the exponent must not be 0");
}
PowerTransform::PowerTransform(double e) : PowerTransform(tensor(e, {.dtype = kFloat64})) {}

namespace {

// The exponent as x has numbers.
Tensor beside_of(const Tensor& exponent, const Tensor& x) {
  return exponent.ndim() > 0 ? exponent : exponent.to(x.dtype()).to(x.device());
}

Tensor without_last_part(const Tensor& y) { return y.narrow(-1, 0, y.size(-1) - 1); }

}  // namespace

std::pair<double, double> PowerTransform::range() const { return {0.0, kInfinity}; }
Tensor PowerTransform::operator()(const Tensor& x) const { return pow(x, beside_of(exponent, x)); }
Tensor PowerTransform::inverse(const Tensor& y) const {
  return pow(y, 1.0 / beside_of(exponent, y));
}
Tensor PowerTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& y) const {
  return log(abs(beside_of(exponent, x) * y / x));
}
Tensor PowerTransform::sign() const { return hero::sign(exponent); }
bool PowerTransform::same_as(const Transform& other) const {
  const auto* power = dynamic_cast<const PowerTransform*>(&other);
  return power != nullptr && equal(exponent, power->exponent);
}

std::pair<double, double> SoftplusTransform::range() const { return {0.0, kInfinity}; }
Tensor SoftplusTransform::operator()(const Tensor& x) const { return softplus_of(x); }
Tensor SoftplusTransform::inverse(const Tensor& y) const { return log(-expm1(-y)) + y; }
Tensor SoftplusTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const {
  return logsigmoid(x);
}

std::pair<double, double> StickBreakingTransform::range() const { return {0.0, 1.0}; }
Tensor StickBreakingTransform::operator()(const Tensor& x) const {
  const Tensor z = within_unit(sigmoid(x - log_parts_left(x)));
  return pad(z, {0, 1}, PadMode::constant, 1.0) *
         pad(cumprod(1 - z, -1), {1, 0}, PadMode::constant, 1.0);
}
Tensor StickBreakingTransform::inverse(const Tensor& y) const {
  const Tensor parts = without_last_part(y);
  const Tensor left = at_least_normal(1 - cumsum(parts, -1), y.dtype());
  return log(parts) - log(left) + log_parts_left(parts);
}
Tensor StickBreakingTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& y) const {
  const Tensor shifted = x - log_parts_left(x);
  return sum(log(without_last_part(y)) - shifted + logsigmoid(shifted), {-1});
}
Shape StickBreakingTransform::forward_shape(const Shape& shape) const {
  check(!shape.empty(), "StickBreakingTransform: a number is no vector");
  Shape longer = shape;
  ++longer.back();
  return longer;
}

ReshapeTransform::ReshapeTransform(const Shape& in, const Shape& out)
    : in_shape(in), out_shape(out) {
  check(in.numel() == out.numel(), "ReshapeTransform: shapes ", in, " and ", out,
        " have different numbers of elements");
}

namespace {

// `shape` with `to` in the place of `from` at its end.
Shape exchanged(const Shape& shape, const Shape& from, const Shape& to) {
  const int cut = shape.size() - from.size();
  Shape result, end;
  for (int i = 0; i < shape.size(); ++i) (i < cut ? result : end).push_back(shape[i]);
  check(cut >= 0 && end == from, "ReshapeTransform: shape ", shape, " does not end in ", from);
  for (const int64_t size : to) result.push_back(size);
  return result;
}

}  // namespace

Shape ReshapeTransform::forward_shape(const Shape& shape) const {
  return exchanged(shape, in_shape, out_shape);
}
Tensor ReshapeTransform::operator()(const Tensor& x) const {
  return reshape(x, forward_shape(x.shape()));
}
Tensor ReshapeTransform::inverse(const Tensor& y) const {
  return reshape(y, exchanged(y.shape(), out_shape, in_shape));
}
Tensor ReshapeTransform::log_abs_det_jacobian(const Tensor& x, const Tensor& /*y*/) const {
  return zeros(exchanged(x.shape(), in_shape, {}), beside(x));
}
bool ReshapeTransform::same_as(const Transform& other) const {
  const auto* reshaped = dynamic_cast<const ReshapeTransform*>(&other);
  return reshaped != nullptr && in_shape == reshaped->in_shape && out_shape == reshaped->out_shape;
}

}  // namespace hero::distributions
