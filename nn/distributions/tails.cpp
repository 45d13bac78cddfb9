// Distributions whose cdf is elementary, most of them with heavy tails.
#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

namespace {

// Of moments that are almost equal, where rounding makes the difference negative.
Tensor variance_of(const Tensor& mean_square, const Tensor& mean) {
  return clamp_min(mean_square - square(mean), 0.0);
}

}  // namespace

Weibull::Weibull(const Tensor& s, const Tensor& c) : Weibull(broadcast("Weibull", {s, c})) {}

Weibull::Weibull(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), scale(both[0]), concentration(both[1]) {
  check_positive("Weibull", "scale", scale);
  check_positive("Weibull", "concentration", concentration);
}

Tensor Weibull::log_prob(const Tensor& value) const {
  const Tensor outside = value < 0, z = inside(outside, value) / scale;
  return nothing(outside,
                 log(concentration / scale) + xlogy(concentration - 1, z) - pow(z, concentration));
}

Tensor Weibull::entropy() const {
  return kEuler * (1 - 1 / concentration) + log(scale / concentration) + 1;
}

Tensor Weibull::moment(double power) const { return exp(lgamma(1 + power / concentration)); }
Tensor Weibull::mean() const { return scale * moment(1); }
Tensor Weibull::variance() const { return square(scale) * variance_of(moment(2), moment(1)); }

Tensor Weibull::cdf(const Tensor& value) const {
  return -expm1(-pow(clamp(value, 0, kInfinity) / scale, concentration));
}

Tensor Weibull::icdf(const Tensor& probability) const {
  return scale * pow(-log1p(-probability), 1 / concentration);
}

Tensor Weibull::rsample(const Shape& shape) const {
  return scale * pow(unit_exponential(extended(shape), scale), 1 / concentration);
}

Pareto::Pareto(const Tensor& s, const Tensor& a) : Pareto(broadcast("Pareto", {s, a})) {}

Pareto::Pareto(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), scale(both[0]), alpha(both[1]) {
  check_positive("Pareto", "scale", scale);
  check_positive("Pareto", "alpha", alpha);
}

Tensor Pareto::log_prob(const Tensor& value) const {
  const Tensor outside = value < scale, x = where(outside, scale, value);
  return nothing(outside, log(alpha / x) - alpha * log(x / scale));
}

Tensor Pareto::entropy() const { return log(scale / alpha) + (1 + 1 / alpha); }

Tensor Pareto::mean() const {
  const Tensor a = where(alpha > 1, alpha, 2);
  return where(alpha > 1, a * scale / (a - 1), kInfinity);
}

Tensor Pareto::variance() const {
  const Tensor a = where(alpha > 2, alpha, 3);
  return where(alpha > 2, square(scale / (a - 1)) * a / (a - 2), kInfinity);
}

Tensor Pareto::cdf(const Tensor& value) const {
  return -expm1(-alpha * log(maximum(value, scale) / scale));
}

Tensor Pareto::icdf(const Tensor& probability) const {
  return scale * exp(-log1p(-probability) / alpha);
}

Tensor Pareto::rsample(const Shape& shape) const {
  return scale * exp(unit_exponential(extended(shape), scale) / alpha);
}

GeneralizedPareto::GeneralizedPareto(const Tensor& l, const Tensor& s, const Tensor& c)
    : GeneralizedPareto(broadcast("GeneralizedPareto", {l, s, c})) {}

GeneralizedPareto::GeneralizedPareto(const std::vector<Tensor>& all)
    : Distribution(all[0].shape()), loc(all[0]), scale(all[1]), concentration(all[2]) {
  check_positive("GeneralizedPareto", "scale", scale);
}

// -log(1 - cdf): log(1 + c z) / c, which is z - c z^2 / 2 near c = 0; infinite behind the last
// value.
Tensor GeneralizedPareto::exponent(const Tensor& value) const {
  const Tensor z = clamp((value - loc) / scale, 0, kInfinity), none = concentration == 0;
  const Tensor c = inside(none, concentration), reached = maximum(c * z, -ones_like(z));
  return where(none, z - 0.5 * concentration * square(z), log1p(reached) / c);
}

// The value whose exponent this is.
Tensor GeneralizedPareto::beyond(const Tensor& exponent) const {
  const Tensor none = concentration == 0, c = inside(none, concentration);
  const Tensor near = exponent + 0.5 * concentration * square(exponent);
  return loc + scale * where(none, near, expm1(c * exponent) / c);
}

Tensor GeneralizedPareto::log_prob(const Tensor& value) const {
  const Tensor z = (value - loc) / scale;
  const Tensor outside = logical_or(z < 0, concentration * z < -1);
  const Tensor t = exponent(where(outside, loc, value));
  return nothing(outside, -log(scale) - t - concentration * t);
}

Tensor GeneralizedPareto::entropy() const { return log(scale) + (concentration + 1); }

Tensor GeneralizedPareto::mean() const {
  const Tensor c = where(concentration < 1, concentration, 0);
  return where(concentration < 1, loc + scale / (1 - c), kNaN);
}

Tensor GeneralizedPareto::variance() const {
  const Tensor c = where(concentration < 0.5, concentration, 0);
  return where(concentration < 0.5, square(scale / (1 - c)) / (1 - 2 * c), kNaN);
}

Tensor GeneralizedPareto::cdf(const Tensor& value) const { return -expm1(-exponent(value)); }

Tensor GeneralizedPareto::icdf(const Tensor& probability) const {
  return beyond(-log1p(-probability));
}

Tensor GeneralizedPareto::rsample(const Shape& shape) const {
  return beyond(unit_exponential(extended(shape), loc));
}

HalfCauchy::HalfCauchy(const Tensor& s)
    : Distribution(broadcast("HalfCauchy", {s})[0].shape()), scale(s) {
  check_positive("HalfCauchy", "scale", scale);
}

Tensor HalfCauchy::log_prob(const Tensor& value) const {
  return nothing(value < 0,
                 std::log(2.0 / std::numbers::pi) - log(scale) - log1p(square(value / scale)));
}

Tensor HalfCauchy::entropy() const { return log(scale) + std::log(2.0 * std::numbers::pi); }
Tensor HalfCauchy::mean() const { return full_like(scale, kInfinity); }

Tensor HalfCauchy::cdf(const Tensor& value) const {
  return atan(clamp(value, 0, kInfinity) / scale) * (2.0 / std::numbers::pi);
}

Tensor HalfCauchy::icdf(const Tensor& probability) const {
  return scale * tan(probability * (0.5 * std::numbers::pi));
}

Tensor HalfCauchy::rsample(const Shape& shape) const {
  return icdf(rand(extended(shape), beside(scale)));
}

Kumaraswamy::Kumaraswamy(const Tensor& ones, const Tensor& zeros)
    : Kumaraswamy(broadcast("Kumaraswamy", {ones, zeros})) {}

Kumaraswamy::Kumaraswamy(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), concentration1(both[0]), concentration0(both[1]) {
  check_positive("Kumaraswamy", "concentration1", concentration1);
  check_positive("Kumaraswamy", "concentration0", concentration0);
}

Tensor Kumaraswamy::log_prob(const Tensor& value) const {
  const Tensor& a = concentration1;
  const Tensor& b = concentration0;
  const Tensor outside = beyond(value, 1), x = where(outside, 0.5, value);
  return nothing(outside, log(a) + log(b) + xlogy(a - 1, x) + xlogy(b - 1, -expm1(xlogy(a, x))));
}

Tensor Kumaraswamy::entropy() const {
  const Tensor& a = concentration1;
  const Tensor& b = concentration0;
  return (1 - 1 / b) + (1 - 1 / a) * (digamma(b + 1) + kEuler) - log(a) - log(b);
}

// The mean of x^power: b B(1 + power / a, b).
Tensor Kumaraswamy::moment(double power) const {
  const Tensor more = 1 + power / concentration1;
  const Tensor& b = concentration0;
  return exp(log(b) + lgamma(more) + lgamma(b) - lgamma(more + b));
}

Tensor Kumaraswamy::mean() const { return moment(1); }
Tensor Kumaraswamy::variance() const { return variance_of(moment(2), moment(1)); }

Tensor Kumaraswamy::cdf(const Tensor& value) const {
  return -expm1(concentration0 * log1p(-pow(clamp(value, 0, 1), concentration1)));
}

Tensor Kumaraswamy::icdf(const Tensor& probability) const {
  return pow(-expm1(log1p(-probability) / concentration0), 1 / concentration1);
}

Tensor Kumaraswamy::rsample(const Shape& shape) const {
  return within_unit(icdf(rand(extended(shape), beside(concentration1))));
}

}  // namespace hero::distributions
