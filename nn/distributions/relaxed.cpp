// Continuous distributions in the place of Bernoulli's and the categorical one.
#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_discrete.h>

namespace hero::distributions {

namespace {

// A function of log odds by a formula that divides by them, or near 0 by its first powers.
template <class Formula, class Powers>
Tensor around_zero(const Tensor& logits, double near, const Formula& formula,
                   const Powers& powers) {
  const Tensor small = abs(logits) < near;
  return where(small, powers(where(small, logits, 0)), formula(inside(small, logits)));
}

// Up to which log odds the powers below have all digits, and the formulas lose few.
constexpr double kNear = 0.3;

// The sum of factor(n) c_n l^(n - 2) over n = 2, 4, .., 10, where log((exp(l) - 1) / l) is l / 2
// and the sum of c_n l^n.
template <class Factor>
Tensor even_powers(const Tensor& l2, const Factor& factor) {
  constexpr double kOver[] = {24.0, -2880.0, 181440.0, -9676800.0, 479001600.0};
  Tensor sum = full_like(l2, factor(10.0) / kOver[4]);
  for (int i = 3; i >= 0; --i) sum = sum * l2 + factor(2.0 * i + 2.0) / kOver[i];
  return sum;
}

const Tensor& one_temperature(const char* name, const Tensor& temperature) {
  check(temperature.defined() && temperature.numel() == 1, name, ": temperature is one number");
  return check_positive(name, "temperature", temperature);
}

}  // namespace

ContinuousBernoulli::ContinuousBernoulli(const ProbsOrLogits& odds)
    : ContinuousBernoulli(both_odds("ContinuousBernoulli", odds), true) {}

ContinuousBernoulli::ContinuousBernoulli(const ProbsOrLogits& both, bool /*complete*/)
    : Distribution(both.probs.shape()), probs(both.probs), logits(both.logits) {}

// log((exp(l) - 1) / l), of |l|, since it is l more for l than for -l.
Tensor ContinuousBernoulli::log_normalizer() const {
  return around_zero(
      logits, kNear,
      [](const Tensor& l) {
        const Tensor size = abs(l);
        return clamp(l, 0, kInfinity) + log(-expm1(-size) / size);
      },
      [](const Tensor& l) {
        const Tensor l2 = square(l);
        return 0.5 * l + l2 * even_powers(l2, [](double) { return 1.0; });
      });
}

Tensor ContinuousBernoulli::log_prob(const Tensor& value) const {
  const Tensor outside = beyond(value, 1);
  return nothing(outside, logits * where(outside, 0.5, value) - log_normalizer());
}

Tensor ContinuousBernoulli::entropy() const { return log_normalizer() - logits * mean(); }

Tensor ContinuousBernoulli::mean() const {
  return around_zero(
      logits, kNear, [](const Tensor& l) { return -1 / expm1(-l) - 1 / l; },
      [](const Tensor& l) { return 0.5 + l * even_powers(square(l), [](double n) { return n; }); });
}

Tensor ContinuousBernoulli::variance() const {
  return around_zero(
      logits, kNear, [](const Tensor& l) { return 1 / square(l) - 0.25 / square(sinh(0.5 * l)); },
      [](const Tensor& l) {
        return even_powers(square(l), [](double n) { return n * (n - 1.0); });
      });
}

// Of log odds above 0 it is 1 - that of -l at 1 - x, which does not overflow.
Tensor ContinuousBernoulli::cdf(const Tensor& value) const {
  const Tensor x = clamp(value, 0, 1), rises = logits > 0;
  return around_zero(
      logits, 1e-5,
      [&](const Tensor& l) {
        const Tensor size = -abs(l);
        const Tensor part = expm1(size * where(rises, 1 - x, x)) / expm1(size);
        return where(rises, 1 - part, part);
      },
      [&](const Tensor& l) { return x + 0.5 * l * x * (x - 1) * (1 + l * (2 * x - 1) / 6); });
}

Tensor ContinuousBernoulli::icdf(const Tensor& probability) const {
  const Tensor rises = logits > 0;
  return around_zero(
      logits, 1e-5,
      [&](const Tensor& l) {
        const Tensor size = -abs(l), p = where(rises, 1 - probability, probability);
        const Tensor x = log1p(p * expm1(size)) / size;
        return where(rises, 1 - x, x);
      },
      [&](const Tensor& l) {
        const Tensor& p = probability;
        return p - 0.5 * l * p * (p - 1) * (1 - l * (2 * p - 1) / 3);
      });
}

Tensor ContinuousBernoulli::rsample(const Shape& shape) const {
  return icdf(rand(extended(shape), beside(logits)));
}

LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Tensor& t, const ProbsOrLogits& odds)
    : LogitRelaxedBernoulli(t, both_odds("RelaxedBernoulli", odds), true) {}

LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Tensor& t, const ProbsOrLogits& both,
                                             bool /*complete*/)
    : Distribution(both.probs.shape()),
      temperature(one_temperature("RelaxedBernoulli", t)),
      probs(both.probs),
      logits(both.logits) {}

Tensor LogitRelaxedBernoulli::log_prob(const Tensor& value) const {
  const Tensor apart = logits - value * temperature;
  return log(temperature) + apart - 2 * softplus_of(apart);
}

// A logistic number is the difference of two of Gumbel's.
Tensor LogitRelaxedBernoulli::rsample(const Shape& shape) const {
  const Tensor u = within_unit(rand(extended(shape), beside(logits)));
  return (log(u) - log1p(-u) + logits) / temperature;
}

ExpRelaxedCategorical::ExpRelaxedCategorical(const Tensor& t, const ProbsOrLogits& odds)
    : ExpRelaxedCategorical(t, Categorical(odds)) {}

ExpRelaxedCategorical::ExpRelaxedCategorical(const Tensor& t, const Categorical& places)
    : Distribution(places.batch_shape(), {places.probs.size(-1)}),
      temperature(one_temperature("RelaxedOneHotCategorical", t)),
      categories(places) {}

Tensor ExpRelaxedCategorical::log_prob(const Tensor& value) const {
  const Tensor score = log_softmax(categories.logits - value * temperature, -1);
  const auto k = static_cast<double>(categories.probs.size(-1));
  return sum(score, {-1}) + (std::lgamma(k) + (k - 1.0) * log(temperature));
}

Tensor ExpRelaxedCategorical::rsample(const Shape& shape) const {
  const Tensor& logits = categories.logits;
  const Tensor gumbels = -log(unit_exponential(extended(shape), logits));
  return log_softmax((logits + gumbels) / temperature, -1);
}

}  // namespace hero::distributions
