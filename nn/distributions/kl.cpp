// kl_divergence: one formula for each pair of kinds. They are those of torch.distributions, by
// integration of the densities; for the multivariate normal see Duchi, "Derivations for linear
// algebra and optimization", 2007.
#include <cmath>
#include <memory>
#include <numbers>

#include <hero/autograd/ops.h>
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

Tensor of(const HalfCauchy& p, const HalfCauchy& q) {
  return log(square(p.scale + q.scale)) - log(4 * p.scale * q.scale);
}

Tensor of(const HalfNormal& p, const HalfNormal& q) {
  const Tensor ratio = p.scale / q.scale;
  return 0.5 * (square(ratio) - 1) - log(ratio);
}

Tensor of(const MultivariateNormal& p, const MultivariateNormal& q) {
  check(p.event_shape() == q.event_shape(), "kl_divergence: vectors of ", p.event_shape(), " and ",
        q.event_shape());
  return p.divergence_from(q);
}

Tensor of(const LowRankMultivariateNormal& p, const LowRankMultivariateNormal& q) {
  check(p.event_shape() == q.event_shape(), "kl_divergence: vectors of ", p.event_shape(), " and ",
        q.event_shape());
  return p.divergence_from(q);
}
MultivariateNormal whole(const LowRankMultivariateNormal& p) {
  return {p.loc, {.scale_tril = p.scale_tril()}};
}
Tensor of(const LowRankMultivariateNormal& p, const MultivariateNormal& q) {
  return of(whole(p), q);
}
Tensor of(const MultivariateNormal& p, const LowRankMultivariateNormal& q) {
  return of(p, whole(q));
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
  return xlogy(p.rate, inside(none, p.rate) / inside(none, q.rate)) - (p.rate - q.rate);
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

bool same_transforms(const TransformedDistribution& p, const TransformedDistribution& q) {
  bool same = p.transforms.size() == q.transforms.size() && p.event_shape() == q.event_shape();
  for (size_t i = 0; same && i < p.transforms.size(); ++i) {
    same = p.transforms[i]->same_as(*q.transforms[i]);
  }
  return same;
}

// The dimensions that are a batch of the base and an event of what it is transformed to are summed.
Tensor of_bases(const TransformedDistribution& p, const TransformedDistribution& q) {
  const auto summed = [](const TransformedDistribution& d) {
    return d.base->batch_shape().size() - d.batch_shape().size();
  };
  if (summed(p) != summed(q)) return {};
  return sum_last(kl_divergence(*p.base, *q.base), summed(p));
}

Tensor of(const TransformedDistribution& p, const TransformedDistribution& q) {
  check(same_transforms(p, q),
        "kl_divergence: the two distributions are transformed in different ways");
  return of_bases(p, q);
}

Tensor of(const InverseGamma& p, const InverseGamma& q) { return of(p.base, q.base); }

Tensor of(const Pareto& p, const Pareto& q) {
  const Tensor ratio = q.alpha / p.alpha;
  const Tensor within = q.alpha * log(p.scale / q.scale) - log(ratio) + ratio - 1;
  return where(p.scale < q.scale, kInfinity, within);
}

Tensor of(const Bernoulli& p, const Poisson& q) {
  return q.rate - xlogy(p.probs, q.rate) - p.entropy();
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
Tensor of(const Pareto& p, const Normal& q) { return moments(p, q); }
Tensor of(const ContinuousBernoulli& p, const Normal& q) { return moments(p, q); }

Tensor moments(const Distribution& p, const Exponential& q) {
  return q.rate * p.mean() - log(q.rate) - p.entropy();
}
Tensor of(const Beta& p, const Exponential& q) { return moments(p, q); }
Tensor of(const ContinuousBernoulli& p, const Exponential& q) { return moments(p, q); }
Tensor of(const Pareto& p, const Exponential& q) { return moments(p, q); }
Tensor of(const Uniform& p, const Exponential& q) {
  return where(p.low < 0, kInfinity, moments(p, q));
}

Tensor moments(const Distribution& p, const ContinuousBernoulli& q) {
  return q.log_normalizer() - q.logits * p.mean() - p.entropy();
}
Tensor of(const ContinuousBernoulli& p, const ContinuousBernoulli& q) { return moments(p, q); }
Tensor of(const Beta& p, const ContinuousBernoulli& q) { return moments(p, q); }

// True where p lies within [0, 1].
Tensor in_unit(const Uniform& p) { return logical_and(p.low >= 0, p.high <= 1); }

Tensor of(const Uniform& p, const ContinuousBernoulli& q) {
  return where(in_unit(p), moments(p, q), kInfinity);
}

// Of numbers between 0 and 1 the density of q is the same.
Tensor within(const Distribution& p, const Uniform& q) {
  const Tensor whole = logical_and(q.low <= 0, q.high >= 1);
  return where(whole, log(q.high - q.low) - p.entropy(), kInfinity);
}
Tensor of(const Beta& p, const Uniform& q) { return within(p, q); }
Tensor of(const ContinuousBernoulli& p, const Uniform& q) { return within(p, q); }

// The mean of log x.
Tensor log_mean(const Beta& p) {
  return digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0);
}
Tensor log_mean(const Pareto& p) { return log(p.scale) + 1 / p.alpha; }
Tensor log_mean(const Tensor& low, const Tensor& high) {
  return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1;
}
Tensor log_mean(const Uniform& p) {
  return log_mean(clamp(p.low, 0, kInfinity), clamp(p.high, 0, kInfinity));
}

template <class P>
Tensor of_positive(const P& p, const Gamma& q) {
  const Tensor& a = q.concentration;
  return lgamma(a) - a * log(q.rate) - (a - 1) * log_mean(p) + q.rate * p.mean() - p.entropy();
}
Tensor of(const Beta& p, const Gamma& q) { return of_positive(p, q); }
Tensor of(const Pareto& p, const Gamma& q) { return of_positive(p, q); }
Tensor of(const Uniform& p, const Gamma& q) {
  return where(p.low < 0, kInfinity, of_positive(p, q));
}

Tensor of(const Uniform& p, const Pareto& q) {
  const Tensor within = (q.alpha + 1) * log_mean(p) - log(q.alpha) - xlogy(q.alpha, q.scale);
  return where(p.low < q.scale, kInfinity, within - p.entropy());
}

Tensor of(const Uniform& p, const Beta& q) {
  const Tensor& a = q.concentration1;
  const Tensor& b = q.concentration0;
  const Tensor low = clamp(p.low, 0, 1), high = clamp(p.high, 0, 1);
  const Tensor inside = lgamma(a) + lgamma(b) - lgamma(a + b) - (a - 1) * log_mean(low, high) -
                        (b - 1) * log_mean(1 - high, 1 - low) - p.entropy();
  return where(in_unit(p), inside, kInfinity);
}

// Of a Gumbel q the mean of exp(-x / scale) is needed, too, given here with exp(loc / scale).
Tensor against(const Distribution& p, const Gumbel& q, const Tensor& mean_of_exp) {
  return log(q.scale) + (p.mean() - q.loc) / q.scale + mean_of_exp - p.entropy();
}
Tensor of(const Normal& p, const Gumbel& q) {
  const Tensor deviation = p.scale / q.scale;
  return against(p, q, exp((q.loc - p.loc) / q.scale + 0.5 * square(deviation)));
}
Tensor of(const Exponential& p, const Gumbel& q) {
  const Tensor rate = p.rate * q.scale;
  return against(p, q, exp(q.loc / q.scale) * rate / (rate + 1));
}
Tensor of(const Gamma& p, const Gumbel& q) {
  return against(p, q, exp(q.loc / q.scale - p.concentration * log1p(1 / (p.rate * q.scale))));
}
Tensor of(const Uniform& p, const Gumbel& q) {
  const Tensor width = (p.high - p.low) / q.scale;
  return against(p, q, exp((q.loc - p.low) / q.scale) * -expm1(-width) / width);
}

Tensor of(const Normal& p, const Laplace& q) {
  const Tensor apart = p.loc - q.loc, z = apart / p.scale;
  const Tensor folded = p.scale * (std::sqrt(2.0 / std::numbers::pi) * exp(-0.5 * square(z))) +
                        apart * erf(z * std::numbers::sqrt2 / 2);
  return log(2 * q.scale) + folded / q.scale - p.entropy();
}

template <class... D>
bool is_one_of(const Distribution& d) {
  return (... || (dynamic_cast<const D*>(&d) != nullptr));
}

// Where values lie: 4 anywhere, 3 above 0, 2 above a bound, 1 between two; 0 for kinds that are not
// compared. Of two of these kinds the greater one has values that the other cannot have.
int support_of(const Distribution& d) {
  if (is_one_of<Normal, Laplace, Gumbel>(d)) return 4;
  if (is_one_of<Exponential, Gamma>(d)) return 3;
  if (is_one_of<Pareto>(d)) return 2;
  return is_one_of<Beta, ContinuousBernoulli, Uniform>(d) ? 1 : 0;
}

// Infinite if p has values that q cannot have; undefined if that is not known.
Tensor infinite(const Distribution& p, const Distribution& q) {
  const int of_p = support_of(p), of_q = support_of(q);
  const bool counts = is_one_of<Poisson>(p) && is_one_of<Bernoulli, Binomial>(q);
  const bool near_0 = of_p == 1 && of_q == 2;  // all that is left of [0, 1]
  if (!counts && !near_0 && (of_q == 0 || of_p <= of_q)) return {};
  const Shape shape = broadcast_shapes("kl_divergence", p.batch_shape(), q.batch_shape());
  return full_like(expand(p.mean(), shape), kInfinity);
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
    kAlike<HalfCauchy>,
    kAlike<Uniform>,
    kAlike<Exponential>,
    kAlike<MultivariateNormal>,
    kAlike<LowRankMultivariateNormal>,
    try_pair<LowRankMultivariateNormal, MultivariateNormal>,
    try_pair<MultivariateNormal, LowRankMultivariateNormal>,
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
    kAlike<InverseGamma>,
    kAlike<Pareto>,
    kAlike<ContinuousBernoulli>,
    try_pair<Bernoulli, Poisson>,
    try_pair<Pareto, Normal>,
    try_pair<ContinuousBernoulli, Normal>,
    try_pair<ContinuousBernoulli, Exponential>,
    try_pair<Pareto, Exponential>,
    try_pair<Beta, ContinuousBernoulli>,
    try_pair<Uniform, ContinuousBernoulli>,
    try_pair<Beta, Uniform>,
    try_pair<ContinuousBernoulli, Uniform>,
    try_pair<Beta, Gamma>,
    try_pair<Pareto, Gamma>,
    try_pair<Uniform, Gamma>,
    try_pair<Uniform, Pareto>,
    try_pair<Uniform, Beta>,
    try_pair<Normal, Gumbel>,
    try_pair<Exponential, Gumbel>,
    try_pair<Gamma, Gumbel>,
    try_pair<Uniform, Gumbel>,
    try_pair<Normal, Laplace>,
};

// The distribution as transforms of another one, as PyTorch defines it; null for others.
std::shared_ptr<const TransformedDistribution> as_transformed(const Distribution& p) {
  const auto made = [](const auto& base, const auto&... transforms) {
    return std::make_shared<const TransformedDistribution>(base, transforms...);
  };
  if (const auto* d = dynamic_cast<const TransformedDistribution*>(&p)) {
    return std::make_shared<const TransformedDistribution>(*d);
  }
  if (const auto* d = dynamic_cast<const LogNormal*>(&p)) return made(d->base, ExpTransform());
  if (const auto* d = dynamic_cast<const InverseGamma*>(&p)) {
    return made(d->base, PowerTransform(-1.0));
  }
  if (const auto* d = dynamic_cast<const LogisticNormal*>(&p)) {
    return made(d->base, StickBreakingTransform());
  }
  if (const auto* d = dynamic_cast<const Pareto*>(&p)) {
    return made(Exponential(d->alpha), ExpTransform(),
                AffineTransform(zeros_like(d->scale), d->scale));
  }
  if (const auto* d = dynamic_cast<const Weibull*>(&p)) {
    return made(Exponential(ones_like(d->scale)), PowerTransform(1 / d->concentration),
                AffineTransform(zeros_like(d->scale), d->scale));
  }
  if (const auto* d = dynamic_cast<const Kumaraswamy*>(&p)) {
    const Tensor one = ones_like(d->concentration0);
    return made(Uniform(zeros_like(one), one), PowerTransform(1 / d->concentration0),
                AffineTransform(one, -one), PowerTransform(1 / d->concentration1));
  }
  return nullptr;
}

// Two distributions with the same transforms have the divergence of their bases.
Tensor by_transforms(const Distribution& p, const Distribution& q) {
  const auto first = as_transformed(p), second = as_transformed(q);
  const bool same = first != nullptr && second != nullptr && same_transforms(*first, *second);
  return same ? of_bases(*first, *second) : Tensor();
}

}  // namespace

Tensor kl_divergence(const Distribution& p, const Distribution& q) {
  for (const auto pair : kPairs) {
    if (const Tensor result = pair(p, q); result.defined()) return result;
  }
  if (const Tensor result = by_transforms(p, q); result.defined()) return result;
  if (const Tensor result = infinite(p, q); result.defined()) return result;
  fail("kl_divergence: there is no formula for ", p.name(), " and ", q.name());
}

}  // namespace hero::distributions
