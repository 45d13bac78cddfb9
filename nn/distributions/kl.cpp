// kl_divergence: one formula for each pair of kinds. They are those of torch.distributions, by
// integration of the densities; for the multivariate normal see Duchi, "Derivations for linear
// algebra and optimization", 2007.
#include <cmath>
#include <numbers>

#include <hero/autograd/math_ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/distributions_discrete.h>

namespace hero::distributions {

namespace {

Tensor of(const Normal& p, const Normal& q) {
  const Tensor ratio = p.scale / q.scale, shift = square((p.loc - q.loc) / q.scale);
  return 0.5 * (square(ratio) + shift - 1) - log(ratio);
}

Tensor of(const LogNormal& p, const LogNormal& q) { return of(p.base, q.base); }

Tensor of(const HalfNormal& p, const HalfNormal& q) {
  const Tensor ratio = p.scale / q.scale;
  return 0.5 * (square(ratio) - 1) - log(ratio);
}

Tensor of(const MultivariateNormal& p, const MultivariateNormal& q) {
  check(p.event_shape() == q.event_shape(), "kl_divergence: vectors of ", p.event_shape(), " and ",
        q.event_shape());
  return p.divergence_from(q);
}

Tensor of(const Uniform& p, const Uniform& q) {
  const Tensor within = logical_and(q.low <= p.low, p.high <= q.high);
  return where(within, log((q.high - q.low) / (p.high - p.low)), kInfinity);
}

Tensor of(const Exponential& p, const Exponential& q) {
  const Tensor ratio = q.rate / p.rate;
  return ratio - 1 - log(ratio);
}

Tensor of(const Laplace& p, const Laplace& q) {
  const Tensor apart = abs(p.loc - q.loc), ratio = p.scale / q.scale;
  return apart / q.scale + ratio * exp(-apart / p.scale) - 1 - log(ratio);
}

Tensor of(const Gumbel& p, const Gumbel& q) {
  const Tensor ratio = p.scale / q.scale, shift = (p.loc - q.loc) / q.scale;
  return shift - log(ratio) + ratio * kEuler + exp(lgamma(1 + ratio) - shift) - (1.0 + kEuler);
}

Tensor of(const Cauchy& p, const Cauchy& q) {
  return log(square(p.scale + q.scale) + square(p.loc - q.loc)) - log(4 * p.scale * q.scale);
}

Tensor gammas(const Tensor& a, const Tensor& rate, const Tensor& q_a, const Tensor& q_rate) {
  return q_a * log(rate / q_rate) + lgamma(q_a) - lgamma(a) + (a - q_a) * digamma(a) +
         (q_rate - rate) * (a / rate);
}

Tensor of(const Gamma& p, const Gamma& q) {
  return gammas(p.concentration, p.rate, q.concentration, q.rate);
}
Tensor of(const Exponential& p, const Gamma& q) {
  return gammas(ones_like(p.rate), p.rate, q.concentration, q.rate);
}
Tensor of(const Gamma& p, const Exponential& q) {
  return gammas(p.concentration, p.rate, ones_like(q.rate), q.rate);
}

Tensor of(const Beta& p, const Beta& q) {
  const Tensor total = p.concentration1 + p.concentration0;
  const Tensor q_total = q.concentration1 + q.concentration0;
  const auto part = [](const Tensor& a, const Tensor& b) {
    return lgamma(b) - lgamma(a) + (a - b) * digamma(a);
  };
  return part(p.concentration1, q.concentration1) + part(p.concentration0, q.concentration0) -
         part(total, q_total);
}

Tensor of(const Dirichlet& p, const Dirichlet& q) {
  const Tensor& a = p.concentration;
  const Tensor& b = q.concentration;
  const Tensor total = sum(a, {-1}, true);
  return sum(lgamma(b) - lgamma(a) + (a - b) * (digamma(a) - digamma(total)), {-1}) +
         lgamma(sum(a, {-1})) - lgamma(sum(b, {-1}));
}

// p log(p / q), infinite where only q is 0.
Tensor part_of(const Tensor& p, const Tensor& q, const Tensor& logarithm) {
  return where(p == 0, 0, where(q == 0, kInfinity, p * logarithm));
}

// For probabilities of 1, and log odds, that Bernoulli and Binomial have.
Tensor trials(const Tensor& p, const Tensor& p_logits, const Tensor& q, const Tensor& q_logits) {
  return part_of(p, q, softplus_of(-q_logits) - softplus_of(-p_logits)) +
         part_of(1 - p, 1 - q, softplus_of(q_logits) - softplus_of(p_logits));
}

Tensor of(const Bernoulli& p, const Bernoulli& q) {
  return trials(p.probs, p.logits, q.probs, q.logits);
}

Tensor of(const Binomial& p, const Binomial& q) {
  const Tensor enough = p.total_count >= q.total_count;
  check_all(enough, expand(p.total_count, enough.shape()),
            "kl_divergence: Binomial: the first has fewer trials");
  const Tensor each = trials(p.probs, p.logits, q.probs, q.logits);
  return where(p.total_count > q.total_count, kInfinity, p.total_count * each);
}

Tensor of(const Geometric& p, const Geometric& q) {
  return trials(p.probs, p.logits, q.probs, q.logits) / p.probs;  // of 1 / p trials in the mean
}

Tensor of(const Poisson& p, const Poisson& q) {
  const Tensor none = p.rate == 0;  // 0 log(0 / 0) is 0
  return xlogy(p.rate, inner(none, p.rate) / inner(none, q.rate)) - (p.rate - q.rate);
}

Tensor of(const Categorical& p, const Categorical& q) {
  return sum(part_of(p.probs, q.probs, finite(p.logits) - finite(q.logits)), {-1});
}

Tensor of(const OneHotCategorical& p, const OneHotCategorical& q) {
  return of(p.categories, q.categories);
}

Tensor of(const Independent& p, const Independent& q) {
  check(p.dims == q.dims, "kl_divergence: Independent over ", p.dims, " and over ", q.dims,
        " dimensions");
  return sum_last(kl_divergence(*p.base, *q.base), static_cast<int>(p.dims));
}

Tensor of(const TransformedDistribution& p, const TransformedDistribution& q) {
  bool same = p.transforms.size() == q.transforms.size();
  for (size_t i = 0; same && i < p.transforms.size(); ++i) {
    same = p.transforms[i]->same_as(*q.transforms[i]);
  }
  check(same, "kl_divergence: the two distributions are transformed in different ways");
  return kl_divergence(*p.base, *q.base);
}

// Where q's log density is a polynomial, the moments of p are enough.
Tensor moments(const Distribution& p, const Normal& q) {
  const Tensor squares = p.variance() + square(p.mean() - q.loc);
  return 0.5 * squares / square(q.scale) + log(q.scale) + 0.5 * std::log(2.0 * std::numbers::pi) -
         p.entropy();
}
Tensor of(const Beta& p, const Normal& q) { return moments(p, q); }
Tensor of(const Exponential& p, const Normal& q) { return moments(p, q); }
Tensor of(const Gamma& p, const Normal& q) { return moments(p, q); }
Tensor of(const Gumbel& p, const Normal& q) { return moments(p, q); }
Tensor of(const Laplace& p, const Normal& q) { return moments(p, q); }
Tensor of(const Uniform& p, const Normal& q) { return moments(p, q); }

Tensor moments(const Distribution& p, const Exponential& q) {
  return q.rate * p.mean() - log(q.rate) - p.entropy();
}
Tensor of(const Beta& p, const Exponential& q) { return moments(p, q); }
Tensor of(const Uniform& p, const Exponential& q) {
  return where(p.low < 0, kInfinity, moments(p, q));
}

// The formula of P and Q, if p and q are of these kinds.
template <class P, class Q>
Tensor try_pair(const Distribution& p, const Distribution& q) {
  const auto* first = dynamic_cast<const P*>(&p);
  const auto* second = dynamic_cast<const Q*>(&q);
  return first != nullptr && second != nullptr ? of(*first, *second) : Tensor();
}
template <class P>
constexpr auto kAlike = try_pair<P, P>;

constexpr Tensor (*kPairs[])(const Distribution&, const Distribution&) = {
    kAlike<Normal>,
    kAlike<LogNormal>,
    kAlike<HalfNormal>,
    kAlike<Uniform>,
    kAlike<Exponential>,
    kAlike<MultivariateNormal>,
    kAlike<Laplace>,
    kAlike<Gumbel>,
    kAlike<Cauchy>,
    kAlike<Gamma>,
    kAlike<Beta>,
    kAlike<Dirichlet>,
    kAlike<Bernoulli>,
    kAlike<Binomial>,
    kAlike<Geometric>,
    kAlike<Poisson>,
    kAlike<Categorical>,
    kAlike<OneHotCategorical>,
    kAlike<Independent>,
    kAlike<TransformedDistribution>,
    try_pair<Exponential, Gamma>,
    try_pair<Gamma, Exponential>,
    try_pair<Beta, Normal>,
    try_pair<Exponential, Normal>,
    try_pair<Gamma, Normal>,
    try_pair<Gumbel, Normal>,
    try_pair<Laplace, Normal>,
    try_pair<Uniform, Normal>,
    try_pair<Beta, Exponential>,
    try_pair<Uniform, Exponential>,
};

}  // namespace

Tensor kl_divergence(const Distribution& p, const Distribution& q) {
  for (const auto pair : kPairs) {
    if (const Tensor result = pair(p, q); result.defined()) return result;
  }
  fail("kl_divergence: there is no formula for ", p.name(), " and ", q.name());
}

}  // namespace hero::distributions
