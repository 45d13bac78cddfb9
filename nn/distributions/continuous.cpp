#include <cmath>
#include <numbers>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

Uniform::Uniform(const Tensor& l, const Tensor& h) : Uniform(broadcast("Uniform", {l, h})) {}

Uniform::Uniform(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), low(both[0]), high(both[1]) {
  check_all(low < high, low, "Uniform: low must be less than high");
}

Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = logical_and(value >= low, value < high);
  return where(inside, -log(high - low), -kInfinity);
}

Tensor Uniform::entropy() const { return log(high - low); }
Tensor Uniform::mean() const { return (low + high) / 2; }
Tensor Uniform::variance() const { return square(high - low) / 12; }
Tensor Uniform::stddev() const { return (high - low) / std::sqrt(12.0); }

Tensor Uniform::cdf(const Tensor& value) const { return clamp((value - low) / (high - low), 0, 1); }

Tensor Uniform::icdf(const Tensor& probability) const { return low + (high - low) * probability; }

Tensor Uniform::rsample(const Shape& shape) const {
  const Tensor drawn = low + (high - low) * rand(extended(shape), beside(low));
  return where(drawn == high, low, drawn);  // to which one just below may be rounded
}

Exponential::Exponential(const Tensor& r)
    : Distribution(broadcast("Exponential", {r})[0].shape()), rate(r) {
  check_positive("Exponential", "rate", rate);
}

Tensor Exponential::log_prob(const Tensor& value) const {
  return nothing(value < 0, log(rate) - rate * value);
}

Tensor Exponential::entropy() const { return 1 - log(rate); }
Tensor Exponential::mean() const { return reciprocal(rate); }
Tensor Exponential::variance() const { return reciprocal(square(rate)); }
Tensor Exponential::stddev() const { return mean(); }

Tensor Exponential::cdf(const Tensor& value) const {
  return -expm1(-rate * clamp(value, 0, kInfinity));
}

Tensor Exponential::icdf(const Tensor& probability) const { return -log1p(-probability) / rate; }

Tensor Exponential::rsample(const Shape& shape) const {
  return unit_exponential(extended(shape), rate) / rate;
}

Tensor Laplace::log_prob(const Tensor& value) const {
  return -log(2 * scale) - abs(value - loc) / scale;
}

Tensor Laplace::entropy() const { return 1 + log(2 * scale); }
Tensor Laplace::variance() const { return 2 * square(scale); }
Tensor Laplace::stddev() const { return scale * std::numbers::sqrt2; }

Tensor Laplace::cdf(const Tensor& value) const {
  const Tensor z = (value - loc) / scale, tail = 0.5 * exp(-abs(z));
  return where(z < 0, tail, 1 - tail);
}

Tensor Laplace::icdf(const Tensor& probability) const {
  const Tensor above = probability > 0.5;
  const Tensor tail = log(2 * where(above, 1 - probability, probability));
  return loc + scale * where(above, -tail, tail);
}

// An exponential number on either side.
Tensor Laplace::rsample(const Shape& shape) const {
  const Shape whole = extended(shape);
  const Tensor far = unit_exponential(whole, loc);
  return loc + scale * where(rand(whole, beside(loc)) < 0.5, -far, far);
}

Tensor Gumbel::log_prob(const Tensor& value) const {
  const Tensor z = (loc - value) / scale;
  return z - exp(z) - log(scale);
}

Tensor Gumbel::entropy() const { return log(scale) + (1.0 + kEuler); }
Tensor Gumbel::mean() const { return loc + scale * kEuler; }

Tensor Gumbel::variance() const {
  return square(scale) * (std::numbers::pi * std::numbers::pi / 6.0);
}

Tensor Gumbel::stddev() const { return scale * (std::numbers::pi / std::sqrt(6.0)); }

Tensor Gumbel::cdf(const Tensor& value) const { return exp(-exp((loc - value) / scale)); }
Tensor Gumbel::icdf(const Tensor& probability) const {
  return loc - scale * log(-log(probability));
}

Tensor Gumbel::rsample(const Shape& shape) const {
  return loc - scale * log(unit_exponential(extended(shape), loc));
}

Tensor Cauchy::log_prob(const Tensor& value) const {
  return -log(scale) - std::log(std::numbers::pi) - log1p(square((value - loc) / scale));
}

Tensor Cauchy::entropy() const { return log(scale) + std::log(4.0 * std::numbers::pi); }
Tensor Cauchy::mean() const { return full_like(loc, std::numeric_limits<double>::quiet_NaN()); }
Tensor Cauchy::variance() const { return full_like(loc, kInfinity); }

Tensor Cauchy::cdf(const Tensor& value) const {
  return atan((value - loc) / scale) / std::numbers::pi + 0.5;
}

Tensor Cauchy::icdf(const Tensor& probability) const {
  return loc + scale * tan(std::numbers::pi * (probability - 0.5));
}

Tensor Cauchy::rsample(const Shape& shape) const {
  return icdf(rand(extended(shape), beside(loc)));
}

}  // namespace hero::distributions
