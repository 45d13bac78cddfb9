// The likeliest values.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_discrete.h>

namespace hero::distributions {

namespace {

template <class D>
Tensor at_loc(const D& d) {
  return d.loc;
}
template <class D>
Tensor at_zero(const D& d) {
  return zeros(d.batch_shape(), beside(d.mean()));
}

Tensor of(const LogNormal& d) { return exp(d.base.loc - square(d.base.scale)); }
Tensor of(const Gamma& d) { return clamp_min(d.concentration - 1.0, 0.0) / d.rate; }
Tensor of(const InverseGamma& d) { return d.base.rate / (d.base.concentration + 1.0); }
Tensor of(const Pareto& d) { return d.scale; }
Tensor of(const Uniform& d) { return full_like(d.low, kNaN); }
Tensor of(const Poisson& d) { return floor(d.rate); }
Tensor of(const Categorical& d) { return argmax(d.probs, -1); }
Tensor of(const Bernoulli& d) {
  return where(d.probs == 0.5, kNaN, (d.probs > 0.5).to(d.probs.dtype()));
}
Tensor of(const Weibull& d) {
  const Tensor& k = d.concentration;
  return d.scale * pow(clamp_min(1.0 - 1.0 / k, 0.0), 1.0 / k);
}
Tensor of(const Kumaraswamy& d) {
  const Tensor &a = d.concentration1, &b = d.concentration0;
  const Tensor inside = logical_and(a >= 1.0, b >= 1.0);
  return where(inside, pow((a - 1.0) / (a * b - 1.0), 1.0 / a), kNaN);
}
Tensor of(const FisherSnedecor& d) {
  const Tensor found = (1.0 - 2.0 / d.df1) * d.df2 / (d.df2 + 2.0);
  return where(d.df1 > 2.0, found, kNaN);
}
Tensor of(const Binomial& d) {
  return minimum(floor((d.total_count + 1.0) * d.probs), d.total_count);
}
Tensor of(const NegativeBinomial& d) {
  return clamp_min(floor((d.total_count - 1.0) * exp(d.logits)), 0.0);
}
Tensor of(const OneHotCategorical& d) {
  const Tensor& p = d.categories.probs;
  return one_hot(argmax(p, -1), p.size(-1)).to(p.dtype());
}

// Where all concentrations are below 1, each corner of the simplex is a pole; the first is named.
Tensor simplex_mode(const Tensor& c) {
  const Tensor above = clamp_min(c - 1.0, 0.0);
  const Tensor corner = (arange(c.size(-1), beside(c)) == 0.0).to(c.dtype());
  return where(all(c < 1.0, Dims{-1}, true), corner, above / sum(above, {-1}, true));
}
Tensor of(const Dirichlet& d) { return simplex_mode(d.concentration); }
Tensor of(const Beta& d) {
  return select(simplex_mode(stack({d.concentration1, d.concentration0}, -1)), -1, 0);
}
Tensor of(const Independent& d) { return d.base->mode(); }

template <class D, Tensor (*F)(const D&)>
Tensor try_kind(const Distribution& d) {
  const auto* of_kind = dynamic_cast<const D*>(&d);
  return of_kind != nullptr ? F(*of_kind) : Tensor();
}

template <class D>
constexpr auto kAtLoc = try_kind<D, at_loc<D>>;
template <class D>
constexpr auto kAtZero = try_kind<D, at_zero<D>>;
template <class D>
constexpr auto kOf = try_kind<D, static_cast<Tensor (*)(const D&)>(of)>;

constexpr Tensor (*kModes[])(const Distribution&) = {
    kAtLoc<LocationScale>,
    kAtLoc<StudentT>,
    kAtLoc<VonMises>,
    kAtLoc<MultivariateNormal>,
    kAtLoc<LowRankMultivariateNormal>,
    kAtZero<Exponential>,
    kAtZero<HalfNormal>,
    kAtZero<Geometric>,
    kOf<LogNormal>,
    kOf<Gamma>,
    kOf<InverseGamma>,
    kOf<Pareto>,
    kOf<Uniform>,
    kOf<Poisson>,
    kOf<Categorical>,
    kOf<Bernoulli>,
    kOf<Weibull>,
    kOf<Kumaraswamy>,
    kOf<FisherSnedecor>,
    kOf<Binomial>,
    kOf<NegativeBinomial>,
    kOf<OneHotCategorical>,
    kOf<Dirichlet>,
    kOf<Beta>,
    kOf<Independent>,
};

}  // namespace

Tensor Distribution::mode() const {
  for (const auto& attempt : kModes) {
    const Tensor found = attempt(*this);
    if (found.defined()) return found;
  }
  if (const auto* half = dynamic_cast<const HalfCauchy*>(this)) return zeros_like(half->scale);
  lacks("mode");
}

}  // namespace hero::distributions
