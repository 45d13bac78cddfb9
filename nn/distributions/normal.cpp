#include <cmath>
#include <numbers>

#include <hero/autograd/math_ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

Tensor Normal::log_prob(const Tensor& value) const {
  const double constant = 0.5 * std::log(2.0 * std::numbers::pi);
  return -square((value - loc) / scale) * 0.5 - log(scale) - constant;
}

Tensor Normal::entropy() const {
  return log(scale) + (0.5 + 0.5 * std::log(2.0 * std::numbers::pi));
}

Tensor Normal::variance() const { return square(scale); }

Tensor Normal::cdf(const Tensor& value) const {
  return 0.5 * erfc((loc - value) / (scale * std::numbers::sqrt2));
}

Tensor Normal::icdf(const Tensor& probability) const {
  return loc + scale * erfinv(2 * probability - 1) * std::numbers::sqrt2;
}

Tensor Normal::rsample(const Shape& shape) const {
  return loc + scale * randn(extended(shape), beside(loc));
}

Tensor LogNormal::log_prob(const Tensor& value) const {
  const Tensor outside = value <= 0, x = log(inner(outside, value));
  return nothing(outside, base.log_prob(x) - x);
}

Tensor LogNormal::entropy() const { return base.entropy() + base.loc; }
Tensor LogNormal::mean() const { return exp(base.loc + 0.5 * square(base.scale)); }

Tensor LogNormal::variance() const {
  const Tensor squares = square(base.scale);
  return expm1(squares) * exp(2 * base.loc + squares);
}

Tensor LogNormal::stddev() const {
  const Tensor squares = square(base.scale);
  return sqrt(expm1(squares)) * exp(base.loc + 0.5 * squares);
}

Tensor LogNormal::cdf(const Tensor& value) const {
  const Tensor outside = value <= 0;
  return where(outside, 0, base.cdf(log(inner(outside, value))));
}

Tensor LogNormal::icdf(const Tensor& probability) const { return exp(base.icdf(probability)); }
Tensor LogNormal::rsample(const Shape& shape) const { return exp(base.rsample(shape)); }

HalfNormal::HalfNormal(const Tensor& s)
    : Distribution(broadcast("HalfNormal", {s})[0].shape()), scale(s) {
  check_positive("HalfNormal", "scale", scale);
}

Tensor HalfNormal::log_prob(const Tensor& value) const {
  const double constant = 0.5 * std::log(2.0 / std::numbers::pi);
  return nothing(value < 0, -square(value / scale) * 0.5 - log(scale) + constant);
}

Tensor HalfNormal::entropy() const {
  return log(scale) + (0.5 + 0.5 * std::log(std::numbers::pi / 2.0));
}

Tensor HalfNormal::mean() const { return scale * std::sqrt(2.0 / std::numbers::pi); }
Tensor HalfNormal::variance() const { return square(scale) * (1.0 - 2.0 / std::numbers::pi); }

Tensor HalfNormal::stddev() const { return scale * std::sqrt(1.0 - 2.0 / std::numbers::pi); }

Tensor HalfNormal::cdf(const Tensor& value) const {
  return clamp(erf(value / (scale * std::numbers::sqrt2)), 0, 1);
}

Tensor HalfNormal::icdf(const Tensor& probability) const {
  return scale * erfinv(probability) * std::numbers::sqrt2;
}

Tensor HalfNormal::rsample(const Shape& shape) const {
  return scale * abs(randn(extended(shape), beside(scale)));
}

}  // namespace hero::distributions
