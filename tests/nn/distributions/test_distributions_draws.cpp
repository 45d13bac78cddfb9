// Draws of distributions: how they are distributed, what they depend on, and their gradients.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "support/catch.h"
#include "support/golden_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/distributions/quantile_slopes.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/distributions_discrete.h>

using namespace hero;
using namespace hero::distributions;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const TensorOptions kWide{.dtype = kFloat64};
const TensorOptions kLeaf{.dtype = kFloat64, .requires_grad = true};

Tensor at(double value) { return full({}, value, kWide); }

// The greatest distance of the draws' distribution from the cdf, which exceeds 2.2 / sqrt(n) in one
// of 8000 runs (Kolmogorov and Smirnov).
void check_distribution(const Distribution& d) {
  constexpr int64_t kDraws = 20000;
  manual_seed(11);
  std::vector<double> draws = d.sample({kDraws}).to_vector<double>();
  std::sort(draws.begin(), draws.end());
  const std::vector<double> below = d.cdf(tensor(draws, kWide)).to_vector<double>();
  double distance = 0.0;
  for (size_t i = 0; i < below.size(); ++i) {
    const double from = static_cast<double>(i) / kDraws, to = static_cast<double>(i + 1) / kDraws;
    distance = std::max({distance, below[i] - from, to - below[i]});
  }
  INFO(d.name());
  CHECK(distance * std::sqrt(static_cast<double>(kDraws)) < 2.2);
}

// Each outcome below `end` as often as its probability says, and all others together.
void check_outcomes(const Distribution& d, int64_t end) {
  constexpr double kDraws = 20000;
  manual_seed(12);
  const Tensor draws = d.sample({static_cast<int64_t>(kDraws)});
  const Tensor outcomes = arange(end, kWide);
  const std::vector<double> probs = exp(d.log_prob(outcomes)).to_vector<double>();
  double seen = 0.0, expected = 0.0;
  const auto close = [&](double count, double p) {
    return std::fabs(count - kDraws * p) <=
           (p > 0.0 ? 5.0 * std::sqrt(kDraws * p * (1.0 - p)) + 4.0 : 0.0);
  };
  for (size_t k = 0; k < probs.size(); ++k) {
    const double count = sum(draws == static_cast<double>(k)).item();
    INFO(d.name() << " " << k << ": " << count << " of " << kDraws * probs[k]);
    CHECK(close(count, probs[k]));
    seen += count;
    expected += probs[k];
  }
  CHECK(close(kDraws - seen, std::max(1.0 - expected, 0.0)));
}

// The means and variances of draws, within 5 of their deviations, estimated from the draws.
void check_moments(const Distribution& d) {
  constexpr int64_t kDraws = 20000;
  manual_seed(13);
  const Tensor x = d.sample({kDraws}).to(kFloat64), squares = square(x - d.mean());
  const auto check_mean = [&](const Tensor& values, const Tensor& wanted) {
    const Tensor error = sqrt(mean(square(values - mean(values, {0})), {0}) / kDraws);
    INFO(d.name());
    CHECK(max(abs(mean(values, {0}) - wanted) / error).item() < 5.0);
  };
  check_mean(x, d.mean());
  check_mean(squares, d.variance());
}

json golden() {
  std::ifstream file(test::golden_dir() + "/distributions_more.json");
  REQUIRE(file.good());
  return json::parse(file);
}

}  // namespace

TEST_CASE("quantiles of gamma and beta move with their parameters as 90 digits say") {
  const json all = golden();
  for (const json& row : all.at("gamma_slopes")) {
    const std::vector<double> v = row;
    INFO(row.dump());
    CHECK(std::fabs(gamma_slope(v[0], std::log(v[1])) / v[2] - 1.0) < 1e-12);
    CHECK(std::fabs(gamma_below(v[0], std::log(v[1])) / v[3] - 1.0) < 1e-12);
    CHECK(std::fabs(v[4] / v[2] - 1.0) < 2e-3);  // PyTorch's own digits
  }
  for (const json& row : all.at("beta_slopes")) {
    const std::vector<double> v = row;
    INFO(row.dump());
    CHECK(std::fabs(beta_slope(v[0], v[1], v[2], 1.0 - v[2]) / v[3] - 1.0) < 1e-12);
    const bool far = v[0] == 300.0 && v[2] < 0.5;  // where PyTorch has hardly a digit
    CHECK(std::fabs(v[4] / v[3] - 1.0) < (far ? 1.0 : 0.1));
  }
}

TEST_CASE("continuous draws are distributed as their cdf says") {
  check_distribution(Normal(at(-2.0), at(0.5)));
  check_distribution(Uniform(at(-2.0), at(0.5)));
  check_distribution(Exponential(at(3.0)));
  check_distribution(Laplace(at(1.0), at(0.5)));
  check_distribution(Gumbel(at(1.0), at(0.5)));
  check_distribution(Cauchy(at(1.0), at(0.5)));
  check_distribution(LogNormal(at(1.0), at(0.5)));
  check_distribution(HalfNormal(at(3.0)));
  for (const double shape : {0.02, 0.2, 0.9, 1.0, 3.0, 50.0, 1e4}) {
    check_distribution(Gamma(at(shape), at(0.5)));
  }
  check_distribution(Chi2(at(3.0)));
  check_distribution(Weibull(at(2.0), at(1.5)));
  check_distribution(Pareto(at(2.0), at(1.5)));
  for (const double c : {-0.4, 0.0, 0.7}) {
    check_distribution(GeneralizedPareto(at(1.0), at(2.0), at(c)));
  }
  check_distribution(HalfCauchy(at(2.0)));
  check_distribution(Kumaraswamy(at(0.4), at(3.0)));
  check_distribution(InverseGamma(at(1.5), at(2.0)));
  for (const double logit : {-30.0, -2.0, 0.0, 1e-6, 4.0}) {
    check_distribution(ContinuousBernoulli({.logits = at(logit)}));
  }
  check_distribution(MixtureSameFamily(Categorical({.probs = tensor({0.2, 0.8}, kWide)}),
                                       Normal(tensor({-2.0, 1.0}, kWide), at(1.0))));
  check_distribution(TransformedDistribution(Gumbel(at(1.0), at(0.5)),
                                             AffineTransform(at(1.0), at(-2.0)), ExpTransform()));
  check_distribution(TransformedDistribution(Laplace(at(0.0), at(1.0)), SigmoidTransform()));
}

TEST_CASE("counts come as often as their probabilities say") {
  for (const double rate : {0.0, 0.4, 9.5, 10.5, 40.0}) check_outcomes(Poisson(at(rate)), 60);
  for (const double p : {0.0, 0.03, 0.5, 0.97, 1.0}) {
    check_outcomes(Binomial(9, {.probs = at(p)}), 10);
    check_outcomes(Binomial(200, {.probs = at(p)}), 201);
  }
  check_outcomes(Geometric({.probs = at(0.3)}), 30);
  check_outcomes(NegativeBinomial(2.5, {.probs = at(0.3)}), 30);
  check_outcomes(NegativeBinomial(0.1, {.logits = at(1.0)}), 60);
  check_outcomes(Geometric({.probs = at(1.0)}), 3);
}

TEST_CASE("draws of further distributions have their moments") {
  check_moments(StudentT(tensor({9.0, 30.0}, kWide), at(2.0), at(0.3)));
  check_moments(Beta(tensor({0.3, 2.0, 100.0}, kWide), tensor({0.5, 0.5, 30.0}, kWide)));
  check_moments(FisherSnedecor(tensor({3.0, 30.0}, kWide), tensor({20.0, 30.0}, kWide)));
  check_moments(Dirichlet(tensor({{0.3, 2.0, 1.0}, {10.0, 20.0, 0.4}}, kWide)));
  check_moments(Poisson(tensor({100.0, 1e5, 1e9}, kWide)));
  check_moments(
      Binomial(tensor({100.0, 1e4, 1e9}, kWide), {.probs = tensor({0.9, 0.2, 1e-8}, kWide)}));
  check_moments(Multinomial(30, {.probs = tensor({{0.2, 0.1, 0.7}, {0.9, 0.06, 0.04}}, kWide)}));
  check_moments(OneHotCategorical({.probs = tensor({0.2, 0.1, 0.7}, kWide)}));
  const Tensor factor = tensor({{1.5, 0.0}, {-0.3, 0.7}}, kWide);
  check_moments(MultivariateNormal(tensor({1.0, 2.0}, kWide), {.scale_tril = factor}));
  check_moments(Wishart(tensor({1.5, 7.0}, kWide), {.scale_tril = factor}));
  const Tensor loc = tensor({{0.5, -1.0}, {3.0, 0.0}}, kWide);
  check_moments(MixtureSameFamily(Categorical({.logits = tensor({0.3, -1.0}, kWide)}),
                                  Independent(Normal(loc, at(0.5)), 1)));
}

TEST_CASE("a mixture draws from batches of its own and of its components") {
  const Categorical mixture({.logits = zeros({4, 1, 3})});
  const MixtureSameFamily d(mixture, Independent(Normal(zeros({5, 3, 2}), ones({})), 1));
  CHECK((d.batch_shape() == Shape{4, 5} && d.event_shape() == Shape{2}));
  CHECK(d.sample({7}).shape() == Shape{7, 4, 5, 2});
  CHECK(d.log_prob(d.sample({7})).shape() == Shape{7, 4, 5});
}

TEST_CASE("draws that reject depend on seed and place, not on threads and sizes") {
  const auto draws = [](int64_t n, int threads) {
    const ThreadLimit limit(threads);
    manual_seed(4);
    return std::vector<Tensor>{Gamma(at(0.3), at(2.0)).sample({n}),
                               StudentT(at(3.0), at(0.0), at(1.0)).sample({n}),
                               Dirichlet(tensor({0.3, 2.0, 1.0}, kWide)).sample({n}),
                               Poisson(at(33.0)).sample({n}),
                               Binomial(100, {.probs = at(0.3)}).sample({n}),
                               Multinomial(7, {.probs = tensor({0.1, 0.9}, kWide)}).sample({n})};
  };
  const std::vector<Tensor> one = draws(2000, 1), three = draws(2000, 3), few = draws(10, 1);
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(equal(one[i], three[i]));
    CHECK(equal(one[i].slice(0, 0, 10), few[i]));
    CHECK_FALSE(equal(one[i].slice(0, 0, 10), one[i].slice(0, 10, 20)));
  }
  // The first draw of a seed, for ever.
  manual_seed(4);
  CHECK(Gamma(at(0.3), at(2.0)).sample().item() == one[0][0].item());
}

TEST_CASE("draws by rsample move with locations, scales and factors") {
  const auto seeded = [](auto make) {
    return TensorFunction([=](const std::vector<Tensor>& in) {
      manual_seed(5);
      return make(in).rsample({3});
    });
  };
  const std::vector<Tensor> in = {tensor({0.5, -1.0}, kLeaf), tensor({1.0, 2.0}, kLeaf)};
  gradcheck(seeded([](const auto& p) { return Laplace(p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) { return Gumbel(p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) { return Cauchy(p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) { return LogNormal(p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) { return Exponential(p[1] + 0.0 * p[0]); }), in);
  gradcheck(seeded([](const auto& p) { return HalfNormal(p[1] + 0.0 * p[0]); }), in);
  gradcheck(seeded([](const auto& p) { return Weibull(p[1], exp(p[0])); }), in);
  gradcheck(seeded([](const auto& p) { return Pareto(p[1], exp(p[0])); }), in);
  gradcheck(seeded([](const auto& p) { return GeneralizedPareto(p[0], p[1], p[0]); }), in);
  gradcheck(seeded([](const auto& p) { return HalfCauchy(p[1] + 0.0 * p[0]); }), in);
  gradcheck(seeded([](const auto& p) { return Kumaraswamy(p[1], exp(p[0])); }), in);
  gradcheck(seeded([](const auto& p) { return InverseGamma(at(4.0) + 0.0 * p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) { return ContinuousBernoulli({.logits = p[0] * p[1]}); }), in);
  gradcheck(seeded([](const auto& p) { return RelaxedBernoulli(p[1][0], {.logits = p[0]}); }), in);
  const auto corners = [](const auto& p) {
    return RelaxedOneHotCategorical(p[1][0], {.logits = p[0]});
  };
  gradcheck(seeded(corners), in);
  gradcheck(seeded([](const auto& p) { return StudentT(full({2}, 4.0, kWide), p[0], p[1]); }), in);
  gradcheck(seeded([](const auto& p) {
              return MultivariateNormal(p[0],
                                        {.covariance_matrix = p[1].diag() + outer(p[0], p[0])});
            }),
            in);
  gradcheck(seeded([](const auto& p) {
              return TransformedDistribution(Normal(p[0], p[1]), TanhTransform());
            }),
            in);
}

TEST_CASE("draws by rsample move with the shapes of gamma distributions") {
  const std::vector<double> shapes = {0.02, 0.7, 3.0, 40.0, 1e3};
  const Tensor a = tensor(shapes, kLeaf), rate = full({5}, 2.0, kLeaf);
  manual_seed(6);
  const Tensor x = Gamma(a, rate).rsample();
  x.sum().backward();
  for (int64_t i = 0; i < 5; ++i) {
    const double value = x[i].item(), shape = shapes[static_cast<size_t>(i)];
    CHECK(std::fabs(a.grad()[i].item() / (value * gamma_slope(shape, std::log(2.0 * value))) -
                    1.0) < 1e-12);
    CHECK(std::fabs(rate.grad()[i].item() / (-value / 2.0) - 1.0) < 1e-12);
  }
  manual_seed(6);
  CHECK(equal(Gamma(a, rate).sample(), x));
  CHECK_THROWS_WITH(grad(Gamma(a, rate).rsample().sum(), a, {.create_graph = true}),
                    ContainsSubstring("has no derivative"));
  // dP/da = -f dx/da: the cdf's own gradients, by differences.
  const std::vector<Tensor> in = {tensor({0.3, 2.0, 150.0}, kLeaf),
                                  tensor({0.1, 3.0, 140.0}, kLeaf)};
  gradcheck([](const auto& p) { return Gamma(p[0], ones({}, kFloat64)).cdf(p[1]); }, in);
}

// The mean of the gradient of what is drawn is the gradient of its mean.
TEST_CASE("gradients of draws are right in the mean") {
  constexpr int64_t kDraws = 20000;
  const auto check_mean = [](const Tensor& parameter, const Tensor& of_draws, const Tensor& exact) {
    const Tensor wanted = grad(exact.sum(), parameter, {.retain_graph = true});
    const Tensor found = grad(mean(of_draws, {0}).sum(), parameter, {.retain_graph = true});
    CHECK(max(abs(found - wanted) / (0.02 + abs(wanted))).item() < 0.05);
  };
  manual_seed(7);
  const Tensor c = tensor({0.4, 2.0, 7.0}, kLeaf), total = sum(c);
  const Tensor x = Dirichlet(c).rsample({kDraws});
  check_mean(c, x.select(-1, 0), c[0] / total);
  check_mean(c, square(x), c * (c + 1) / (total * (total + 1)));
  check_mean(c, x.select(-1, 0) * x.select(-1, 1), c[0] * c[1] / (total * (total + 1)));
  const Tensor b = Beta(c, full({3}, 1.5, kWide)).rsample({kDraws});
  check_mean(c, square(b), c * (c + 1) / ((c + 1.5) * (c + 2.5)));
  const Tensor df = tensor({9.0, 30.0}, kLeaf);
  check_mean(df, square(StudentT(df, at(0.0), at(1.0)).rsample({kDraws})), df / (df - 2));
  const Tensor k = tensor({0.5, 3.0}, kLeaf);
  check_mean(k, square(Chi2(k).rsample({kDraws})), k * (k + 2));
}

TEST_CASE("draws have the dtype of their parameters, and stay positive where they underflow") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    INFO(to_string(dtype));
    const Tensor tiny = full({100}, 1e-3, dtype), one = ones({100}, dtype);
    for (const Tensor& x :
         {Gamma(tiny, one).sample(), Beta(one, one).sample(), Laplace(one, one).sample(),
          Poisson(one).sample(), StudentT(one, one, one).sample(),
          Binomial(3, {.probs = one}).sample()}) {
      CHECK(x.dtype() == dtype);
      CHECK(all(isfinite(x)).item<bool>());
    }
    CHECK(min(Gamma(tiny, one).sample()).item() > 0.0);
  }
  const Tensor parts = Dirichlet(full({1000, 3}, 1e-4, kWide)).sample();
  CHECK(max(abs(sum(parts, {-1}) - 1)).item() < 1e-12);
  CHECK(Gamma(zeros({0}), ones({})).sample({3}).shape() == Shape{3, 0});
  const Tensor planned = ones({2}, {.device = kMeta});
  CHECK(Dirichlet(planned).rsample({3}).device() == Device(kMeta));
  CHECK(Poisson(planned).sample({3}).shape() == Shape{3, 2});
}

TEST_CASE("transformed draws come with their log probabilities, also where tanh is flat") {
  const Tensor loc = tensor({0.5, -1.0}, kLeaf), scale = tensor({1.0, 0.5}, kLeaf);
  const TransformedDistribution d(Independent(Normal(loc, scale), 1), TanhTransform(),
                                  AffineTransform(at(1.0), at(-2.0)));
  manual_seed(8);
  const auto [value, log_prob] = d.rsample_with_log_prob({5});
  CHECK(value.shape() == Shape{5, 2});
  CHECK(log_prob.shape() == Shape{5});
  CHECK(max(abs(d.log_prob(value) - log_prob)).item() < 1e-12);
  const auto far = TransformedDistribution(Normal(full({}, 30.0), ones({})), TanhTransform())
                       .rsample_with_log_prob({5});
  CHECK(all(far.value == 1.0).item<bool>());
  CHECK(all(isfinite(far.log_prob)).item<bool>());
  const TransformedDistribution unit(Normal(at(0.0), at(1.0)), TanhTransform());
  const Tensor borders = tensor({-2.0, -1.0, 1.0, 1.5, std::nan("")}, kWide);
  CHECK(all(unit.log_prob(borders).slice(0, 0, 4) == -HUGE_VAL).item<bool>());
  CHECK(std::isnan(unit.log_prob(borders)[4].item()));
  CHECK(equal(unit.cdf(borders).slice(0, 0, 4), tensor({0.0, 0.0, 1.0, 1.0}, kWide)));
  CHECK(LogNormal(at(0.0), at(1.0)).log_prob(at(0.0)).item() == -HUGE_VAL);
  CHECK(LogNormal(at(0.0), at(1.0)).cdf(at(-1.0)).item() == 0.0);
  const auto each = Independent(Normal(loc, scale), 1).rsample_with_log_prob();
  CHECK(each.log_prob.shape() == Shape{});
}

TEST_CASE("what distributions refuse is one line") {
  const Tensor one = ones({2}), wrong = tensor({1.0, -1.0});
  CHECK_THROWS_WITH(Gamma(one, wrong),
                    ContainsSubstring("Gamma: rate must be positive: it is -1 at "
                                      "element 1 of [2]"));
  CHECK_THROWS_WITH(Chi2(wrong), ContainsSubstring("Chi2: df must be positive"));
  CHECK_THROWS_WITH(Laplace(one, wrong), ContainsSubstring("Laplace: scale must be positive"));
  CHECK_THROWS_WITH(Poisson(wrong), ContainsSubstring("Poisson: rate must not be negative"));
  CHECK_THROWS_WITH(Geometric({.probs = zeros({1})}),
                    ContainsSubstring("Geometric: a probability"));
  CHECK_THROWS_WITH(Binomial(-1, {.probs = zeros({1})}), ContainsSubstring("total_count"));
  CHECK_THROWS_WITH(Exponential(ones({2}, kInt64)), ContainsSubstring("parameters are int64"));
  CHECK_THROWS_WITH(Dirichlet(ones({})), ContainsSubstring("[.., K]"));
  CHECK_THROWS_WITH(MultivariateNormal(one, {}), ContainsSubstring("give one of"));
  CHECK_THROWS_WITH(MultivariateNormal(one, {.scale_tril = zeros({2, 2})}),
                    ContainsSubstring("the diagonal of scale_tril must be positive"));
  CHECK_THROWS_WITH(
      MultivariateNormal(one, {.scale_tril = tensor({1.0, 5.0, 0.0, 1.0}).reshape({2, 2})}),
      ContainsSubstring("scale_tril must be 0 above its diagonal"));
  CHECK_THROWS_WITH(kl_divergence(Binomial(3, {.probs = full({}, 0.5)}),
                                  Binomial(tensor({2, 4}), {.probs = full({}, 0.5)})),
                    ContainsSubstring("the first has fewer trials: it is 3 at element 1 of [2]"));
  CHECK_THROWS_WITH(Independent(Normal(one, one), 2), ContainsSubstring("2 dimensions of a batch"));
  CHECK_THROWS_WITH(AffineTransform(0.0, 0.0), ContainsSubstring("must not be 0"));
  CHECK_THROWS_WITH(Poisson(one).entropy(), ContainsSubstring("Poisson: it has no entropy"));
  CHECK_THROWS_WITH(Beta(one, one).cdf(one), ContainsSubstring("Beta: it has no cdf"));
  CHECK_THROWS_WITH(Poisson(one).rsample(), ContainsSubstring("Poisson: a draw is discrete"));
  CHECK_THROWS_WITH(kl_divergence(Cauchy(one, one), Normal(one, one)),
                    ContainsSubstring("no formula for Cauchy and Normal"));
  CHECK_THROWS_WITH(kl_divergence(TransformedDistribution(Normal(one, one), ExpTransform()),
                                  TransformedDistribution(Normal(one, one), TanhTransform())),
                    ContainsSubstring("in different ways"));
  CHECK(Exponential(one).log_prob(tensor({-1.0, 0.0})).to_vector<double>() ==
        std::vector<double>{-HUGE_VAL, 0.0});
  CHECK(all(Poisson(one).log_prob(tensor({0.5, -1.0})) == -HUGE_VAL).item<bool>());
  const Geometric halves({.probs = full({}, 0.5)});
  CHECK(all(halves.log_prob(tensor({0.5, -1.0})) == -HUGE_VAL).item<bool>());
  const Tensor none = full({}, std::nan(""));
  CHECK(std::isnan(halves.log_prob(none).item()));
  CHECK(std::isnan(Poisson(ones({})).log_prob(none).item()));
  CHECK(std::isnan(Binomial(3, {.probs = full({}, 0.5)}).log_prob(none).item()));
}

TEST_CASE("divergences of different kinds are integrals of the densities") {
  const Tensor x = linspace(1e-6, 1.0 - 1e-6, 200001, kWide);
  const auto integral = [&](const Distribution& p, const Distribution& q, double reach) {
    const Tensor points = reach * x, logarithm = p.log_prob(points);
    return mean(where(logarithm > -HUGE_VAL, exp(logarithm) * (logarithm - q.log_prob(points)), 0))
               .item() *
           reach;
  };
  const Normal normal(at(0.3), at(0.8));
  const Exponential exponential(at(1.5));
  const Beta beta(at(2.0), at(3.0));
  const Gamma gamma(at(2.5), at(4.0)), other(at(1.5), at(2.0));
  const Uniform uniform(at(0.25), at(0.75));
  const Exponential steep(at(3.0));
  const auto check_pair = [&](const Distribution& p, const Distribution& q, double reach) {
    INFO(p.name() << " " << q.name());
    CHECK(std::fabs(kl_divergence(p, q).item() - integral(p, q, reach)) < 1e-3);
  };
  check_pair(beta, normal, 1.0);
  check_pair(beta, exponential, 1.0);
  check_pair(uniform, normal, 1.0);
  check_pair(uniform, exponential, 1.0);
  check_pair(gamma, normal, 12.0);
  check_pair(gamma, exponential, 12.0);
  check_pair(steep, normal, 12.0);
  check_pair(steep, other, 12.0);
  CHECK(kl_divergence(Uniform(at(-1.0), at(1.0)), exponential).item() == HUGE_VAL);
}

TEST_CASE("distributions with the same transforms have the divergence of their bases") {
  const auto at = [](double value) { return full({}, value, {.dtype = kFloat64}); };
  const auto near = [](const Tensor& found, double wanted) {
    CHECK(found.shape() == Shape{});
    CHECK(std::fabs(found.item() - wanted) < 1e-12);
  };
  // log((2 + 0.5)^2 / (4 * 2 * 0.5))
  near(kl_divergence(HalfCauchy(at(2.0)), HalfCauchy(at(0.5))), std::log(1.5625));
  const Normal p(at(0.5), at(1.0)), q(at(-0.5), at(2.0));
  const double normals = 0.5 * (0.25 + 0.25 - 1) + std::log(2.0);
  const TransformedDistribution exp_p(p, ExpTransform()), exp_q(q, ExpTransform());
  const LogNormal log_p(at(0.5), at(1.0)), log_q(at(-0.5), at(2.0));
  near(kl_divergence(log_p, log_q), normals);
  near(kl_divergence(log_p, exp_q), normals);
  near(kl_divergence(exp_p, log_q), normals);
  // A base with a batch of which the transform makes an event.
  const Tensor locs = tensor({0.5, 0.0}, {.dtype = kFloat64});
  const Tensor q_locs = tensor({-0.5, 0.0}, {.dtype = kFloat64});
  const Tensor q_scales = tensor({2.0, 1.0}, {.dtype = kFloat64});
  const Normal many(locs, ones_like(locs)), q_many(q_locs, q_scales);
  const LogisticNormal logistic(locs, ones_like(locs)), q_logistic(q_locs, q_scales);
  const TransformedDistribution stick(many, StickBreakingTransform());
  near(kl_divergence(logistic, q_logistic), normals);
  near(kl_divergence(stick, q_logistic), normals);
  near(kl_divergence(stick, TransformedDistribution(q_many, StickBreakingTransform())), normals);
  const Gamma g(at(2.0), at(3.0)), h(at(1.5), at(1.0));
  near(kl_divergence(InverseGamma(at(2.0), at(3.0)),
                     TransformedDistribution(h, PowerTransform(-1.0))),
       kl_divergence(g, h).item());
  near(kl_divergence(Weibull(at(2.0), at(3.0)), Weibull(at(2.0), at(3.0))), 0.0);
  near(kl_divergence(Kumaraswamy(at(2.0), at(3.0)), Kumaraswamy(at(2.0), at(3.0))), 0.0);
  CHECK_THROWS_WITH(kl_divergence(Weibull(at(2.0), at(3.0)), Weibull(at(2.0), at(1.0))),
                    ContainsSubstring("no formula for Weibull and Weibull"));
  CHECK_THROWS_WITH(kl_divergence(HalfNormal(at(2.0)), HalfCauchy(at(2.0))),
                    ContainsSubstring("no formula for HalfNormal and HalfCauchy"));
  CHECK_THROWS_WITH(kl_divergence(log_p, logistic),
                    ContainsSubstring("no formula for LogNormal and LogisticNormal"));
}
