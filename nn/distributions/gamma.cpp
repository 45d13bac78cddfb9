// The gamma distribution and those that are made of it.
#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/draws.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

namespace {

const Tensor& with_categories(const Tensor& x) {
  check(x.defined() && x.ndim() > 0 && x.size(-1) > 0,
        "Dirichlet: concentration is [.., K], K > 0: got ", x.defined() ? x.shape() : Shape{});
  return x;
}

}  // namespace

Gamma::Gamma(const Tensor& c, const Tensor& r) : Gamma("Gamma", broadcast("Gamma", {c, r})) {}

Gamma::Gamma(const char* name, const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), concentration(both[0]), rate(both[1]) {
  check_positive(name, "concentration", concentration);
  check_positive(name, "rate", rate);
}

Tensor Gamma::log_prob(const Tensor& value) const {
  const Tensor outside = value < 0, x = inside(outside, value);
  return nothing(outside, concentration * log(rate) + xlogy(concentration - 1, x) - rate * x -
                              lgamma(concentration));
}

Tensor Gamma::entropy() const {
  const Tensor& a = concentration;
  return a - log(rate) + lgamma(a) + (1 - a) * digamma(a);
}

Tensor Gamma::mean() const { return concentration / rate; }
Tensor Gamma::variance() const { return concentration / square(rate); }
Tensor Gamma::stddev() const { return sqrt(concentration) / rate; }

Tensor Gamma::cdf(const Tensor& value) const {
  return gamma_cdf(concentration, value * rate).to(rate.dtype());
}

Tensor Gamma::rsample(const Shape& shape) const {
  const Tensor logarithm = log_gamma_draws(expand(concentration, extended(shape)));
  const Tensor x = exp(logarithm - log(rate.to(kFloat64)));
  return at_least_normal(x, rate.dtype());
}

Chi2::Chi2(const Tensor& d)
    : Gamma("Chi2",
            {0.5 * check_positive("Chi2", "df", broadcast("Chi2", {d})[0]), full_like(d, 0.5)}),
      df(d) {}

StudentT::StudentT(const Tensor& d, const Tensor& l, const Tensor& s)
    : StudentT(broadcast("StudentT", {d, l, s})) {}

StudentT::StudentT(const std::vector<Tensor>& all)
    : Distribution(all[0].shape()), df(all[0]), loc(all[1]), scale(all[2]) {
  check_positive("StudentT", "df", df);
  check_positive("StudentT", "scale", scale);
}

Tensor StudentT::log_prob(const Tensor& value) const {
  const Tensor z = (value - loc) / scale;
  const Tensor constant = log(scale) + 0.5 * log(df) + 0.5 * std::log(std::numbers::pi) +
                          lgamma(0.5 * df) - lgamma(0.5 * (df + 1));
  return -0.5 * (df + 1) * log1p(square(z) / df) - constant;
}

Tensor StudentT::entropy() const {
  const Tensor half = 0.5 * df, more = 0.5 * (df + 1);
  const Tensor log_beta = lgamma(half) + 0.5 * std::log(std::numbers::pi) - lgamma(more);
  return log(scale) + more * (digamma(more) - digamma(half)) + 0.5 * log(df) + log_beta;
}

Tensor StudentT::mean() const {
  return where(df <= 1, std::numeric_limits<double>::quiet_NaN(), loc);
}

Tensor StudentT::variance() const {
  const Tensor finite = square(scale) * df / (where(df > 2, df, 4) - 2);
  const Tensor more = where(df > 2, finite, kInfinity);
  return where(df <= 1, std::numeric_limits<double>::quiet_NaN(), more);
}

Tensor StudentT::stddev() const {
  return scale * sqrt(StudentT(df, loc, ones_like(scale)).variance());
}

// A normal number over the root of a chi-squared one.
Tensor StudentT::rsample(const Shape& shape) const {
  const Shape whole = extended(shape);
  const Tensor normal = randn(whole, beside(loc)), half = 0.5 * df.to(kFloat64);
  const Tensor mean_square = log_gamma_draws(expand(half, whole)) - log(half);
  return loc + scale * (normal * exp(-0.5 * mean_square)).to(loc.dtype());
}

InverseGamma::InverseGamma(const Tensor& c, const Tensor& r)
    : Distribution(broadcast_shapes("InverseGamma", c.shape(), r.shape())), base(c, r) {}

// That of 1 / x, whose slope is -1 / x^2.
Tensor InverseGamma::log_prob(const Tensor& value) const {
  const Tensor outside = value <= 0, x = inside(outside, value);
  return nothing(outside, base.log_prob(1 / x) - 2 * log(x));
}

Tensor InverseGamma::entropy() const {
  const Tensor& a = base.concentration;
  return a + log(base.rate) + lgamma(a) - (1 + a) * digamma(a);
}

Tensor InverseGamma::mean() const {
  const Tensor& a = base.concentration;
  return where(a > 1, base.rate / (where(a > 1, a, 2) - 1), kInfinity);
}

Tensor InverseGamma::variance() const {
  const Tensor a = where(base.concentration > 2, base.concentration, 3);
  return where(base.concentration > 2, square(base.rate / (a - 1)) / (a - 2), kInfinity);
}

Tensor InverseGamma::cdf(const Tensor& value) const {
  return 1 - base.cdf(1 / clamp(value, 0, kInfinity));
}

Tensor InverseGamma::rsample(const Shape& shape) const {
  const Tensor logarithm = log_gamma_draws(expand(base.concentration, extended(shape)));
  return at_least_normal(exp(log(base.rate.to(kFloat64)) - logarithm), base.rate.dtype());
}

FisherSnedecor::FisherSnedecor(const Tensor& d1, const Tensor& d2)
    : FisherSnedecor(broadcast("FisherSnedecor", {d1, d2})) {}

FisherSnedecor::FisherSnedecor(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), df1(both[0]), df2(both[1]) {
  check_positive("FisherSnedecor", "df1", df1);
  check_positive("FisherSnedecor", "df2", df2);
}

Tensor FisherSnedecor::log_prob(const Tensor& value) const {
  const Tensor outside = value < 0, x = inside(outside, value);
  const Tensor a = 0.5 * df1, b = 0.5 * df2, ratio = df1 / df2;
  return nothing(outside, lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(ratio) + xlogy(a - 1, x) -
                              (a + b) * log1p(ratio * x));
}

Tensor FisherSnedecor::mean() const {
  const Tensor d = where(df2 > 2, df2, 3);
  return where(df2 > 2, d / (d - 2), std::numeric_limits<double>::quiet_NaN());
}

Tensor FisherSnedecor::variance() const {
  const Tensor d = where(df2 > 4, df2, 5);
  const Tensor finite = 2 * square(d / (d - 2)) * (df1 + d - 2) / (df1 * (d - 4));
  return where(df2 > 4, finite, std::numeric_limits<double>::quiet_NaN());
}

Tensor FisherSnedecor::rsample(const Shape& shape) const {
  const auto log_mean_square = [&](const Tensor& df) {
    const Tensor half = 0.5 * df.to(kFloat64);
    return log_gamma_draws(expand(half, extended(shape))) - log(half);
  };
  const Tensor over = log_mean_square(df1);
  return at_least_normal(exp(over - log_mean_square(df2)), df1.dtype());
}

Beta::Beta(const Tensor& ones, const Tensor& zeros) : Beta(broadcast("Beta", {ones, zeros})) {}

Beta::Beta(const std::vector<Tensor>& both)
    : Distribution(both[0].shape()), concentration1(both[0]), concentration0(both[1]) {
  check_positive("Beta", "concentration1", concentration1);
  check_positive("Beta", "concentration0", concentration0);
}

Tensor Beta::log_prob(const Tensor& value) const {
  const Tensor& a = concentration1;
  const Tensor& b = concentration0;
  const Tensor outside = beyond(value, 1), x = where(outside, 0.5, value);
  return nothing(outside,
                 xlogy(a - 1, x) + xlogy(b - 1, 1 - x) + lgamma(a + b) - lgamma(a) - lgamma(b));
}

Tensor Beta::entropy() const {
  const Tensor& a = concentration1;
  const Tensor& b = concentration0;
  return lgamma(a) + lgamma(b) - lgamma(a + b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) +
         (a + b - 2) * digamma(a + b);
}

Tensor Beta::mean() const { return concentration1 / (concentration1 + concentration0); }

Tensor Beta::variance() const {
  const Tensor total = concentration1 + concentration0;
  return concentration1 * concentration0 / (square(total) * (total + 1));
}

Tensor Beta::rsample(const Shape& shape) const {
  const Shape whole = extended(shape);
  const Tensor both = stack({expand(concentration1, whole), expand(concentration0, whole)}, -1);
  const DType dtype = concentration1.dtype();
  return at_least_normal(select(dirichlet_draws(both), -1, 0), dtype,
                         1.0 - 0.5 * epsilon_of(dtype));
}

Dirichlet::Dirichlet(const Tensor& c)
    : Distribution(without_last(with_categories(c).shape()), {c.size(-1)}),
      concentration(broadcast("Dirichlet", {c})[0]) {
  check_positive("Dirichlet", "concentration", concentration);
}

Tensor Dirichlet::log_prob(const Tensor& value) const {
  const Tensor outside = any(value < 0, {-1});
  const Tensor x = inside(unsqueeze(outside, -1), value);
  return nothing(outside, sum(xlogy(concentration - 1, x), {-1}) +
                              lgamma(sum(concentration, {-1})) - sum(lgamma(concentration), {-1}));
}

Tensor Dirichlet::entropy() const {
  const Tensor& a = concentration;
  const Tensor total = sum(a, {-1});
  const auto k = static_cast<double>(a.size(-1));
  return sum(lgamma(a), {-1}) - lgamma(total) - (k - total) * digamma(total) -
         sum((a - 1) * digamma(a), {-1});
}

Tensor Dirichlet::mean() const { return concentration / sum(concentration, {-1}, true); }

Tensor Dirichlet::variance() const {
  const Tensor total = sum(concentration, {-1}, true);
  return concentration * (total - concentration) / (square(total) * (total + 1));
}

Tensor Dirichlet::rsample(const Shape& shape) const {
  return at_least_normal(dirichlet_draws(expand(concentration, extended(shape))),
                         concentration.dtype());
}

}  // namespace hero::distributions
