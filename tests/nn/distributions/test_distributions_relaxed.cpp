// Draws and densities of VonMises, ContinuousBernoulli and the relaxed distributions; covariances.
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/distributions_discrete.h>

using namespace hero;
using namespace hero::distributions;
using Catch::Matchers::ContainsSubstring;

namespace {

const TensorOptions kWide{.dtype = kFloat64};

Tensor at(double value) { return full({}, value, kWide); }

}  // namespace

TEST_CASE("angles of von Mises lie around their mean as the density says") {
  constexpr int64_t kAngles = 20000;
  const double pi = std::acos(-1.0);
  const Tensor grid = arange(4096, kWide) * (2.0 * pi / 4096.0) - pi;
  for (const double concentration : {1e-7, 0.3, 3.0, 700.0, 1e5}) {
    INFO(concentration);
    const VonMises d(at(3.0), at(concentration));
    // Periodic functions are integrated exactly by sums, as long as the grid resolves them.
    const Tensor density = exp(d.log_prob(grid)) * (2.0 * pi / 4096.0);
    if (concentration < 1e5) {
      CHECK(std::fabs(sum(density).item() - 1.0) < 1e-12);
      CHECK(std::fabs(sum(density * cos(grid - 3.0)).item() + d.variance().item() - 1.0) < 1e-12);
    }
    manual_seed(14);
    const Tensor x = d.sample({kAngles});
    CHECK(min(x).item() >= -pi);
    CHECK(max(x).item() < pi);
    const Tensor length = cos(x - 3.0);
    CHECK(std::fabs(mean(sin(x - 3.0)).item()) < 5.0 / std::sqrt(double{kAngles}));
    CHECK(std::fabs(mean(length).item() + d.variance().item() - 1.0) <
          5.0 * length.std().item() / std::sqrt(double{kAngles}) + 1e-15);
  }
  CHECK_THROWS_WITH(VonMises(at(0.0), at(1.0)).rsample(), ContainsSubstring("no gradient"));
}

TEST_CASE("a continuous Bernoulli is smooth where its odds are even") {
  const Tensor near = tensor({-0.31, -0.3, -0.29, -1e-4, 0.0, 1e-9, 0.29, 0.3, 0.31}, kWide);
  const ContinuousBernoulli d({.logits = near});
  const Tensor x = (arange(20000, kWide) + 0.5).reshape({-1, 1}) / 20000.0;  // midpoints
  const Tensor density = exp(d.log_prob(x)) / 20000.0;
  CHECK(max(abs(sum(density, {0}) - 1)).item() < 1e-9);
  CHECK(max(abs(sum(density * x, {0}) - d.mean())).item() < 1e-9);
  CHECK(max(abs(sum(density * square(x - d.mean()), {0}) - d.variance())).item() < 1e-9);
  const Tensor p = tensor({{0.1}, {0.6}}, kWide);
  CHECK(max(abs(d.cdf(d.icdf(p)) - p)).item() < 1e-14);
  // The derivative of the mean is the variance, on both sides of where the formulas change.
  const Tensor leaf = near.detach().requires_grad_(true);
  const Tensor slope = grad(sum(ContinuousBernoulli({.logits = leaf}).mean()), leaf);
  CHECK(max(abs(slope - d.variance())).item() < 1e-12);
}

TEST_CASE("even odds and the uniform distribution of [0, 1] are the same") {
  const ContinuousBernoulli even({.logits = at(0.0)}), odd({.logits = at(2.0)});
  const Uniform whole(at(0.0), at(1.0));
  CHECK(kl_divergence(even, whole).item() == 0.0);
  CHECK(kl_divergence(whole, even).item() == 0.0);
  CHECK(kl_divergence(odd, whole).item() == -odd.entropy().item());
  CHECK(std::isinf(kl_divergence(odd, Uniform(at(0.1), at(1.0))).item()));
}

TEST_CASE("relaxed draws have their densities and approach corners") {
  const Tensor logits = tensor({0.5, -1.0, 0.0}, kWide);
  // The share of draws above a threshold is that of the Bernoulli distribution, at any temperature.
  manual_seed(15);
  for (const double t : {0.1, 1.0}) {
    const Tensor hard = (RelaxedBernoulli(at(t), {.logits = logits}).sample({20000}) > 0.5);
    CHECK(max(abs(mean(hard.to(kFloat64), {0}) - sigmoid(logits))).item() < 0.02);
    const Tensor corner =
        argmax(RelaxedOneHotCategorical(at(t), {.logits = logits}).sample({20000}), -1);
    const Tensor shares = mean(one_hot(corner, 3).to(kFloat64), {0});
    CHECK(max(abs(shares - softmax(logits, 0))).item() < 0.02);
  }
  const RelaxedOneHotCategorical d(at(0.5), {.logits = logits});
  const auto [value, log_prob] = d.rsample_with_log_prob({5});
  CHECK(max(abs(sum(value, {-1}) - 1)).item() < 1e-14);
  CHECK(max(abs(log_prob - d.log_prob(value))).item() < 1e-12);
  const Tensor x = (arange(20000, kWide) + 0.5).reshape({-1, 1}) / 20000.0;
  const RelaxedBernoulli cold(at(2.0), {.logits = logits});
  CHECK(max(abs(mean(exp(cold.log_prob(x)), {0}) - 1)).item() < 1e-2);
}

TEST_CASE("a broken stick has the density of its parts, and a straight-through draw a gradient") {
  const Tensor loc = tensor({{0.5, -1.0, 0.2}, {0.0, 0.0, 0.0}}, kWide);
  const LogisticNormal d(loc, at(0.7));
  CHECK((d.batch_shape() == Shape{2} && d.event_shape() == Shape{4}));
  manual_seed(16);
  const Tensor x = d.sample({20000});
  CHECK(x.shape() == Shape{20000, 2, 4});
  CHECK(max(abs(sum(x, {-1}) - 1)).item() < 1e-14);
  // The log odds of where the stick is broken are the normal numbers.
  const Tensor first = logit(x.narrow(-1, 0, 1)) + std::log(3.0);
  CHECK(max(abs(mean(first, {0}).flatten() - loc.narrow(-1, 0, 1).flatten())).item() < 0.03);
  CHECK(max(abs(var(first, {0}) - 0.49)).item() < 0.03);
  const Tensor second = logit(x.narrow(-1, 1, 1) / (1 - x.narrow(-1, 0, 1))) + std::log(2.0);
  CHECK(max(abs(mean(second, {0}).flatten() - loc.narrow(-1, 1, 1).flatten())).item() < 0.03);
  const Tensor wide = full({1}, 400.0, {.requires_grad = true});
  const auto [value, log_prob] = LogisticNormal(wide, ones({})).rsample_with_log_prob();
  CHECK(min(value).item() > 0.0);
  CHECK(std::isfinite(grad(sum(value), wide).item()));

  const Tensor logits = tensor({0.5, -1.0, 0.0}, {.dtype = kFloat64, .requires_grad = true});
  const OneHotCategoricalStraightThrough through({.logits = logits});
  const Tensor draw = through.rsample(), weights = tensor({1.0, 2.0, 3.0}, kWide);
  CHECK(sum(draw == 1.0).item() == 1.0);
  CHECK(
      allclose(grad(sum(draw * weights), logits), grad(sum(softmax(logits, 0) * weights), logits)));
}

TEST_CASE("correlations of LKJ have unit diagonals and the variances of their concentration") {
  for (const int64_t k : {2, 3, 5}) {
    for (const double c : {0.5, 1.0, 4.0}) {
      const LKJCholesky d(k, at(c));
      manual_seed(17);
      const Tensor l = d.sample({20000}), matrix = matmul(l, transpose(l, -2, -1));
      CHECK(max(abs(diagonal(matrix, 0, -2, -1) - 1)).item() < 1e-12);
      CHECK(equal(tril(l), l));
      CHECK(all(isfinite(d.log_prob(l))).item() == 1.0);
      // Each correlation r has (r + 1) / 2 of Beta(a, a) with a = c - 1 + k / 2.
      const double variance = 1.0 / (2.0 * c + static_cast<double>(k) - 1.0);
      for (int64_t i = 1; i < k; ++i) {
        const Tensor r = matrix.select(-2, i).select(-1, 0);
        INFO(k << " " << c << " " << i);
        CHECK(std::fabs(mean(r).item()) < 5.0 * std::sqrt(variance / 20000.0));
        CHECK(std::fabs(mean(square(r)).item() - variance) < 0.015);
      }
    }
  }
  CHECK_THROWS_WITH(LKJCholesky(1, at(1.0)), ContainsSubstring("dim must be 2"));
  CHECK_THROWS_WITH(Wishart(at(1.0), {.scale_tril = eye(2, kWide)}),
                    ContainsSubstring("df must exceed K - 1: it is 1"));
  CHECK_THROWS_WITH(Wishart(at(5.0), {}), ContainsSubstring("Wishart: give one of"));
}

TEST_CASE("a covariance or a precision that is not symmetric is refused") {
  const Tensor loc = zeros({2}, kWide), skew = tensor({{2.0, 0.5}, {0.1, 2.0}}, kWide);
  CHECK_THROWS_WITH(MultivariateNormal(loc, {.covariance_matrix = skew}),
                    ContainsSubstring("must be symmetric: it is 0.5 at element 1 of [2, 2]"));
  CHECK_THROWS_WITH(MultivariateNormal(loc, {.precision_matrix = skew}),
                    ContainsSubstring("must be symmetric"));
  const Tensor rounded = tensor({{2.0, 0.5}, {0.5000001, 2.0}}, kWide);
  CHECK(MultivariateNormal(loc, {.covariance_matrix = rounded}).event_shape() == Shape{2});
}

TEST_CASE("heavy tails have no moments where these are infinite, and gradients without NaN") {
  const Tensor alpha = tensor({0.8, 1.5, 4.0}, {.dtype = kFloat64, .requires_grad = true});
  const Pareto pareto(ones({3}, kWide), alpha);
  CHECK(std::isinf(pareto.mean()[0].item()));
  CHECK(std::isinf(pareto.variance()[1].item()));
  const FisherSnedecor ratio(ones({3}, kWide), 2 * alpha);
  CHECK(std::isnan(ratio.mean()[0].item()));
  CHECK(std::isnan(ratio.variance()[0].item()));
  CHECK(std::isnan(GeneralizedPareto(at(0.0), at(1.0), at(0.5)).variance().item()));
  CHECK(std::isinf(InverseGamma(alpha, at(1.0)).variance()[1].item()));
  for (const Tensor& x : {pareto.mean(), pareto.variance(), ratio.mean(), ratio.variance(),
                          InverseGamma(alpha, at(1.0)).variance()}) {
    const Tensor finite = sum(where(isfinite(x), x, 0));
    CHECK(all(isfinite(grad(finite, alpha, {.retain_graph = true}))).item() == 1.0);
  }
  // A concentration of 0 is the limit, with its derivatives.
  const Tensor c = tensor({0.0, 0.2, -0.3}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor x = tensor({0.7, 1.0, 1.5}, kWide), p = tensor({0.2, 0.5, 0.9}, kWide);
  const auto of = [](const Tensor& shape) { return GeneralizedPareto(at(0.1), at(2.0), shape); };
  gradcheck([&](const std::vector<Tensor>& in) { return of(in[0]).log_prob(x); }, {c});
  gradcheck([&](const std::vector<Tensor>& in) { return of(in[0]).cdf(x); }, {c});
  gradcheck([&](const std::vector<Tensor>& in) { return of(in[0]).icdf(p); }, {c});
  CHECK(of(at(-0.5)).cdf(at(5.0)).item() == 1.0);
  CHECK(std::isinf(of(at(-0.5)).log_prob(at(5.0)).item()));
}
