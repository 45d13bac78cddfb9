// Powers, softplus, and transforms of several dimensions together.
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

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
