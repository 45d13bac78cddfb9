// The part of docs/pytorch.md about distributions: see test_page_pytorch.cpp.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>

using namespace hero;

TEST_CASE("the page for PyTorch's users: distributions") {
  using namespace hero::distributions;
  manual_seed(0);
  const Tensor h = randn({4, 2}), scale = full({2}, 0.5), scores = randn({4, 3});
  const Tensor odds = full({2}, 0.25), factor = tensor({{1.0, 0.0}, {0.5, 2.0}});
  CHECK(Categorical({.logits = scores}).sample().shape() == Shape{4});
  CHECK(Normal(zeros({}), scale).log_prob(h).shape() == Shape{4, 2});
  CHECK(Gamma(scale, scale).rsample({4}).shape() == Shape{4, 2});
  CHECK(Binomial(12, {.probs = odds}).mean()[0].item() == 3.0);
  CHECK(MultivariateNormal(h[0], {.scale_tril = factor}).event_shape() == Shape{2});
  TransformedDistribution policy(Independent(Normal(h, scale), 1), TanhTransform());
  const auto [action, log_prob] = policy.rsample_with_log_prob();
  CHECK((action.shape() == Shape{4, 2} && log_prob.shape() == Shape{4}));
  const Normal p(h, scale), q(zeros({}), scale);
  CHECK(kl_divergence(p, q).shape() == Shape{4, 2});
}
