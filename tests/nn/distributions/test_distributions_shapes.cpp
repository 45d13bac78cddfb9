// Normal vectors of low rank, and transforms that change shapes, with PyTorch's numbers.
#include "support/close.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/nn/distributions.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_discrete.h>

using namespace hero;
using namespace hero::distributions;
using Catch::Matchers::ContainsSubstring;
using test::check_near, test::waves;

namespace {

const TensorOptions kWide{.dtype = kFloat64};

Tensor numbers(const std::vector<double>& values) { return tensor(values, kWide); }

}  // namespace

TEST_CASE("LowRankMultivariateNormal is PyTorch's, and the full one of its covariance") {
  const Tensor loc = waves({2, 3}, 0.1), w = waves({3, 2}, 0.4), d = numbers({0.5, 1.0, 2.0});
  const LowRankMultivariateNormal p(loc, w, d), q(loc * 0.5, w * 0.7, d + 0.3);
  const Tensor value = waves({2, 3}, 2.0);
  check_near(p.log_prob(value), {-4.216592742665, -4.757727819936});
  check_near(p.entropy(), {5.108343210264, 5.108343210264});
  check_near(p.variance(), {1.445897203954, 2.306548115435, 2.47642983034, 1.445897203954,
                            2.306548115435, 2.47642983034});
  const std::vector<double> covariance = {
      1.445897203954,  0.912596909695,  -0.635674225233, 0.912596909695, 2.306548115435,
      -0.46845640921,  -0.635674225233, -0.46845640921,  2.47642983034,  1.445897203954,
      0.912596909695,  -0.635674225233, 0.912596909695,  2.306548115435, -0.46845640921,
      -0.635674225233, -0.46845640921,  2.47642983034};
  check_near(p.covariance_matrix(), covariance);
  check_near(matmul(p.precision_matrix()[0], p.covariance_matrix()[0]),
             {1, 0, 0, 0, 1, 0, 0, 0, 1});
  check_near(kl_divergence(p, q), {0.140145622016, 0.116249360692});
  const MultivariateNormal full(loc * 0.2, {.covariance_matrix = eye(3, kWide) * 1.5 + 0.2});
  check_near(kl_divergence(p, full), {0.572883051517, 0.501610402345});
  check_near(kl_divergence(full, p), {0.521745815366, 0.434041178269});
  const MultivariateNormal whole(loc, {.scale_tril = p.scale_tril()[0]});
  check_near(whole.log_prob(value), p.log_prob(value).to_vector<double>());
  CHECK(p.batch_shape() == Shape{2});
  CHECK(p.event_shape() == Shape{3});
}

TEST_CASE("draws of a LowRankMultivariateNormal have its mean and covariance, and gradients") {
  manual_seed(7);
  const Tensor w = waves({3, 1}, 0.4), d = numbers({0.5, 1.0, 2.0});
  const LowRankMultivariateNormal p(numbers({1.0, 2.0, 3.0}), w, d);
  const Tensor x = p.sample({40000});
  check_near(mean(x, {0}), {1.0, 2.0, 3.0}, 0.03);
  check_near(cov(x.t()), p.covariance_matrix().to_vector<double>(), 0.06);
  CHECK_NOTHROW(gradcheck(
      [](const auto& in) {
        return LowRankMultivariateNormal(in[0], in[1], in[2]).log_prob(ones({3}, kWide));
      },
      {waves({2, 3}, 0.3).requires_grad_(), w.requires_grad_(), d.requires_grad_()}));
  CHECK_THROWS_WITH(LowRankMultivariateNormal(ones({3}), ones({3, 2}), zeros({3})),
                    ContainsSubstring("cov_diag"));
  CHECK_THROWS_WITH(LowRankMultivariateNormal(ones({3}), ones({2, 2}), ones({3})),
                    ContainsSubstring("[.., K, R]"));
}

TEST_CASE("transforms of several dimensions change batch and event shapes as in PyTorch") {
  const Normal base(zeros({3}, kWide), numbers({1.0, 2.0, 0.5}));
  const TransformedDistribution stick(base, StickBreakingTransform());
  CHECK(stick.batch_shape() == Shape{});
  CHECK(stick.event_shape() == Shape{4});
  check_near(stick.log_prob(tensor({{0.1, 0.2, 0.3, 0.4}, {0.4, 0.3, 0.2, 0.1}}, kWide)),
             {2.467328283224, 2.014281780479});
  check_near(StickBreakingTransform()(waves({2, 3}, 0.3)),
             {0.30936448138, 0.370880333737, 0.233234748789, 0.086520436094, 0.395763442332,
              0.207033567524, 0.139670673811, 0.257532316333});
  manual_seed(2);
  const auto [drawn, log_prob] = stick.rsample_with_log_prob({5});
  CHECK(drawn.shape() == Shape{5, 4});
  check_near(drawn.sum(-1), {1, 1, 1, 1, 1});
  check_near(stick.log_prob(drawn), log_prob.to_vector<double>());
  const Normal six(zeros({5, 6}, kWide), ones({5, 6}, kWide));
  const TransformedDistribution shaped(six, ReshapeTransform({6}, {2, 3}), ExpTransform());
  CHECK(shaped.batch_shape() == Shape{5});
  CHECK(shaped.event_shape() == Shape{2, 3});
  check_near(shaped.log_prob(exp(waves({5, 2, 3}, 0.3))),
             {-9.053050275984, -7.267591605382, -4.705605495942, -9.031801392734, -7.352979289173});
  const auto both = shaped.rsample_with_log_prob({2});
  CHECK(both.value.shape() == Shape{2, 5, 2, 3});
  check_near(shaped.log_prob(both.value), both.log_prob.to_vector<double>());
  CHECK(std::isinf(shaped.log_prob(-ones({5, 2, 3}, kWide))[0].item()));
  CHECK_THROWS_WITH(shaped.cdf(ones({5, 2, 3})), ContainsSubstring("cdf"));
  CHECK_THROWS_WITH(ReshapeTransform({4}, {3}), ContainsSubstring("different numbers of elements"));
  CHECK_THROWS_WITH(TransformedDistribution(six, ReshapeTransform({4}, {2, 2})),
                    ContainsSubstring("does not end in [4]"));
}

TEST_CASE("powers and softplus of draws have PyTorch's densities") {
  const TransformedDistribution power(Exponential(numbers({1.0, 2.0})), PowerTransform(0.5));
  check_near(power.log_prob(numbers({0.5, 1.5})), {-0.25, -2.708240530772});
  check_near(power.cdf(numbers({0.5, 1.5})), {0.221199216929, 0.988891003462});
  const TransformedDistribution soft(Normal(numbers({1.0, 2.0}), numbers({1.0, 1.0})),
                                     SoftplusTransform());
  check_near(soft.log_prob(numbers({0.5, 1.5})), {-1.012575736027, -0.949570999774});
  CHECK(soft.batch_shape() == Shape{2});
  CHECK(std::isinf(soft.log_prob(numbers({-0.5, 1.5}))[0].item()));
  CHECK_THROWS_WITH(PowerTransform(0.0), ContainsSubstring("must not be 0"));
}

TEST_CASE("the likeliest values are PyTorch's") {
  const double nan = std::nan("");
  const Tensor loc = numbers({0.5, -1.0}), one = numbers({1.0, 1.0});
  check_near(Normal(loc, one).mode(), {0.5, -1.0});
  check_near(LogNormal(loc, numbers({0.5, 1.0})).mode(), {1.2840254166877414, 0.1353352832366127});
  check_near(Gamma(numbers({0.5, 3.0}), numbers({2.0, 4.0})).mode(), {0.0, 0.5});
  check_near(Chi2(numbers({1.0, 6.0})).mode(), {0.0, 4.0});
  check_near(Beta(numbers({2.0, 0.5, 3.0}), numbers({4.0, 0.5, 1.0})).mode(), {0.25, 1.0, 1.0});
  check_near(Dirichlet(tensor({{2.0, 3.0, 4.0}, {0.5, 0.2, 0.1}}, kWide)).mode(),
             {1.0 / 6.0, 1.0 / 3.0, 0.5, 1.0, 0.0, 0.0});
  check_near(Binomial(5, {.probs = numbers({0.1, 0.5, 1.0})}).mode(), {0.0, 3.0, 5.0});
  check_near(NegativeBinomial(numbers({0.5, 4.0}), {.probs = numbers({0.3, 0.6})}).mode(),
             {0.0, 4.0});
  check_near(Weibull(numbers({2.0, 3.0}), numbers({2.0, 3.0})).mode(),
             {1.4142135623730951, 2.620741394208897});
  check_near(FisherSnedecor(numbers({1.0, 5.0}), numbers({3.0, 4.0})).mode(), {nan, 0.4});
  check_near(Poisson(numbers({0.5, 3.7})).mode(), {0.0, 3.0});
  check_near(Bernoulli({.probs = numbers({0.2, 0.5, 0.9})}).mode(), {0.0, nan, 1.0});
  const Tensor odds = tensor({{0.2, 0.5, 0.3}, {1.0, 0.0, 0.0}}, kWide);
  CHECK(Categorical({.probs = odds}).mode().equal(tensor({1, 0})));
  check_near(OneHotCategorical({.probs = odds}).mode(), {0, 1, 0, 1, 0, 0});
  check_near(InverseGamma(numbers({2.0, 1.0}), numbers({3.0, 4.0})).mode(), {1.0, 2.0});
  check_near(HalfCauchy(one).mode(), {0.0, 0.0});
  check_near(Geometric({.probs = numbers({0.1, 0.6})}).mode(), {0.0, 0.0});
  check_near(Independent(Normal(loc, one), 1).mode(), {0.5, -1.0});
  // PyTorch's is NaN: (a - 1) / (a b - 1) to the power of 1 / a.
  check_near(Kumaraswamy(numbers({2.0}), numbers({3.0})).mode(), {std::sqrt(0.2)});
  CHECK_THROWS_WITH(ContinuousBernoulli({.probs = one * 0.5}).mode(), ContainsSubstring("mode"));
}
