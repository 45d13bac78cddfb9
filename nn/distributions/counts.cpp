// Distributions of counts and of places.
#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/draws.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_discrete.h>

namespace hero::distributions {

namespace {

// As many as come, of any dtype, in the dtype of the probabilities.
Tensor counts_of(const Tensor& count, const Tensor& probs) {
  check(count.defined(), "Binomial: total_count is undefined");
  const Tensor result = count.to(probs.dtype()).to(probs.device());
  check_all(result >= 0, result, "Binomial: total_count must not be negative");
  return result;
}

// ln n! of a tensor of counts.
Tensor log_factorial(const Tensor& n) { return lgamma(n + 1); }

// Half an event more or less is none: whole numbers only. NaN is for the logarithms.
Tensor not_whole(const Tensor& x) { return x > floor(x); }

}  // namespace

Geometric::Geometric(const ProbsOrLogits& odds) : Geometric(both_odds("Geometric", odds), true) {}

Geometric::Geometric(const ProbsOrLogits& both, bool /*complete*/)
    : Distribution(both.probs.shape()), probs(both.probs), logits(both.logits) {
  check_positive("Geometric", "a probability", probs);
}

// At value 0 the logarithm of 1 - p may be infinite; it does not count.
Tensor Geometric::log_prob(const Tensor& value) const {
  const Tensor n = value.to(probs.dtype()), outside = logical_or(n < 0, not_whole(n));
  const Tensor failing = where(n == 0, 0, probs);
  return nothing(outside, n * log1p(-failing) + log(probs));
}

Tensor Geometric::entropy() const { return (softplus_of(logits) - probs * logits) / probs; }
Tensor Geometric::mean() const { return 1 / probs - 1; }
Tensor Geometric::variance() const { return (1 / probs - 1) / probs; }

Tensor Geometric::draw(const Shape& shape) const {
  const Tensor wide = probs.to(kFloat64), far = unit_exponential(extended(shape), wide);
  return floor(far / -log1p(-wide)).to(probs.dtype());
}

Poisson::Poisson(const Tensor& r) : Distribution(broadcast("Poisson", {r})[0].shape()), rate(r) {
  check_all(rate >= 0, rate, "Poisson: rate must not be negative");
}

Tensor Poisson::log_prob(const Tensor& value) const {
  const Tensor k = value.to(rate.dtype()), outside = logical_or(k < 0, not_whole(k));
  const Tensor n = inside(outside, k);
  return nothing(outside, xlogy(n, rate) - rate - log_factorial(n));
}

Tensor Poisson::draw(const Shape& shape) const {
  return poisson_draws(expand(rate, extended(shape)));
}

Binomial::Binomial(int64_t n, const ProbsOrLogits& odds)
    : Binomial(tensor(n), both_odds("Binomial", odds), true) {}
Binomial::Binomial(const Tensor& n, const ProbsOrLogits& odds)
    : Binomial(n, both_odds("Binomial", odds), true) {}
Binomial::Binomial(const Tensor& n, const ProbsOrLogits& both, bool /*complete*/)
    : Binomial(broadcast("Binomial", {counts_of(n, both.probs), both.probs, both.logits})) {}

Binomial::Binomial(const std::vector<Tensor>& all)
    : Distribution(all[0].shape()), total_count(all[0]), probs(all[1]), logits(all[2]) {}

Tensor Binomial::log_prob(const Tensor& value) const {
  const Tensor& n = total_count;
  const Tensor given = value.to(probs.dtype());
  const Tensor outside = logical_or(beyond(given, n), not_whole(given));
  const Tensor k = where(outside, 0, given);
  return nothing(outside, log_factorial(n) - log_factorial(k) - log_factorial(n - k) + k * logits -
                              n * softplus_of(logits));
}

Tensor Binomial::entropy() const {
  check(total_count.numel() > 0 && total_count.device().type != DeviceType::meta,
        "Binomial: the entropy needs counts with values");
  const Tensor n = max(total_count.detach());
  check(n.item() == min(total_count).item(), "Binomial: the entropy needs counts that are equal");
  Shape outcomes{n.item<int64_t>() + 1};
  for (int i = 0; i < batch_shape().size(); ++i) outcomes.push_back(1);
  const Tensor k = arange(outcomes[0], beside(probs)).reshape(outcomes);
  const Tensor logarithms = log_prob(k);
  return -sum(exp(logarithms) * logarithms, {0});
}

Tensor Binomial::mean() const { return total_count * probs; }
Tensor Binomial::variance() const { return total_count * probs * (1 - probs); }

Tensor Binomial::draw(const Shape& shape) const {
  const Shape whole = extended(shape);
  return binomial_draws(expand(total_count, whole), expand(probs, whole));
}

NegativeBinomial::NegativeBinomial(double n, const ProbsOrLogits& odds)
    : NegativeBinomial(tensor(n, {.dtype = kFloat64}), odds) {}
NegativeBinomial::NegativeBinomial(const Tensor& n, const ProbsOrLogits& odds)
    : NegativeBinomial(n, both_odds("NegativeBinomial", odds), true) {}
NegativeBinomial::NegativeBinomial(const Tensor& n, const ProbsOrLogits& both, bool /*complete*/)
    : NegativeBinomial(
          broadcast("NegativeBinomial",
                    {n.to(both.probs.dtype()).to(both.probs.device()), both.probs, both.logits})) {}

NegativeBinomial::NegativeBinomial(const std::vector<Tensor>& all)
    : Distribution(all[0].shape()), total_count(all[0]), probs(all[1]), logits(all[2]) {
  check_positive("NegativeBinomial", "total_count", total_count);
  check_all(probs < 1, probs, "NegativeBinomial: a probability must be below 1");
}

Tensor NegativeBinomial::log_prob(const Tensor& value) const {
  const Tensor& n = total_count;
  const Tensor given = value.to(probs.dtype()), outside = logical_or(given < 0, not_whole(given));
  const Tensor k = where(outside, 0, given);
  return nothing(outside, lgamma(n + k) - lgamma(n) - log_factorial(k) + n * logsigmoid(-logits) +
                              where(k == 0, 0, k * logsigmoid(logits)));
}

Tensor NegativeBinomial::mean() const { return total_count * exp(logits); }
Tensor NegativeBinomial::variance() const { return mean() / sigmoid(-logits); }

// A Poisson number whose rate is a gamma draw.
Tensor NegativeBinomial::draw(const Shape& shape) const {
  const Tensor rate = log_gamma_draws(expand(total_count, extended(shape)));
  return poisson_draws(exp(rate + logits.to(kFloat64))).to(probs.dtype());
}

Multinomial::Multinomial(int64_t n, const ProbsOrLogits& odds)
    : Multinomial(n, Categorical(odds)) {}

Multinomial::Multinomial(int64_t n, const Categorical& of_one)
    : Distribution(of_one.batch_shape(), {of_one.probs.size(-1)}),
      total_count(n),
      categories(of_one) {
  check(n >= 0, "Multinomial: total_count must not be negative: it is ", n);
}

Tensor Multinomial::log_prob(const Tensor& value) const {
  const Tensor k = value.to(categories.logits.dtype());
  const Tensor wrong = logical_or(any(logical_or(k < 0, not_whole(k)), {-1}),
                                  sum(k, {-1}) != static_cast<double>(total_count));
  const Tensor counts = inside(unsqueeze(wrong, -1), k);
  const Tensor logits = where(counts == 0, 0, categories.logits);  // where 0 times -inf is nothing
  const Tensor ways = log_factorial(sum(counts, {-1})) - sum(log_factorial(counts), {-1});
  return nothing(wrong, ways + sum(logits * counts, {-1}));
}

// n H - ln n! + the means of ln k! over the counts of each category.
Tensor Multinomial::entropy() const {
  const Tensor& p = categories.probs;
  const Tensor n = full_like(p, total_count);
  Shape outcomes{total_count + 1};
  for (int i = 0; i < p.ndim(); ++i) outcomes.push_back(1);
  const Tensor k = arange(total_count + 1, beside(p)).reshape(outcomes);
  const Tensor shares = exp(Binomial(n, {.probs = p}).log_prob(k));
  const Tensor repeated = sum(shares * log_factorial(k), {0, -1});
  const double count = static_cast<double>(total_count);
  return count * categories.entropy() - std::lgamma(count + 1.0) + repeated;
}

Tensor Multinomial::mean() const { return static_cast<double>(total_count) * categories.probs; }
Tensor Multinomial::variance() const { return mean() * (1 - categories.probs); }

Tensor Multinomial::draw(const Shape& shape) const {
  return multinomial_draws(total_count, expand(categories.probs, extended(shape)));
}

OneHotCategorical::OneHotCategorical(const ProbsOrLogits& odds)
    : OneHotCategorical(Categorical(odds)) {}

OneHotCategorical::OneHotCategorical(const Categorical& places)
    : Distribution(places.batch_shape(), {places.probs.size(-1)}), categories(places) {}

Tensor OneHotCategorical::log_prob(const Tensor& value) const {
  return categories.log_prob(argmax(value, -1));
}

Tensor OneHotCategorical::variance() const { return categories.probs * (1 - categories.probs); }

Tensor OneHotCategorical::draw(const Shape& shape) const {
  const Tensor& probs = categories.probs;
  return one_hot(categories.sample(shape), probs.size(-1)).to(probs.dtype());
}

Tensor OneHotCategoricalStraightThrough::rsample(const Shape& shape) const {
  return sample(shape) + (categories.probs - categories.probs.detach());
}

}  // namespace hero::distributions
