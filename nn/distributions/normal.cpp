#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>
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
  const Tensor outside = value <= 0, x = log(inside(outside, value));
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
  return where(outside, 0, base.cdf(log(inside(outside, value))));
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

namespace {

Shape one_more(Shape event) {
  check(!event.empty(), "LogisticNormal: loc and scale must be [.., K - 1]");
  event.push_back(event[event.size() - 1] + 1);
  return event;
}

}  // namespace

Tensor log_parts_left(const Tensor& like) {
  return log(flip(arange(like.size(-1), beside(like)) + 1, {0}));
}

LogisticNormal::LogisticNormal(const Normal& numbers)
    : Distribution(without_last(without_last(one_more(numbers.batch_shape()))),
                   {numbers.batch_shape()[numbers.batch_shape().size() - 1] + 1}),
      base(numbers) {}

// What is left of the stick behind each part, over the part, are the log odds of breaking it there.
Tensor LogisticNormal::log_prob(const Tensor& value) const {
  const Tensor outside = any(value <= 0, {-1}), y = inside(unsqueeze(outside, -1), value);
  const int64_t numbers = value.size(-1) - 1;
  const Tensor head = y.narrow(-1, 0, numbers), tail = y.narrow(-1, 1, numbers);
  const Tensor behind = flip(cumsum(flip(tail, {-1}), -1), {-1});
  const Tensor x = log(head) - log(behind) + log_parts_left(base.loc);
  const Tensor stretch = log(head) + log(behind) - log(head + behind);
  return nothing(outside, sum(base.log_prob(x) - stretch, {-1}));
}

Tensor LogisticNormal::rsample(const Shape& shape) const {
  const Tensor odds = base.rsample(shape) - log_parts_left(base.loc), rest = logsigmoid(-odds);
  const Tensor left = cumsum(rest, -1), parts = logsigmoid(odds) + (left - rest);
  const Tensor last = left.narrow(-1, left.size(-1) - 1, 1);
  return at_least_normal(exp(cat({parts, last}, -1)), base.loc.dtype());
}

}  // namespace hero::distributions
