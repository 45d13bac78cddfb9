// The parts of docs/coming_from.md about distributions, limits of dtypes and computed weights: see
// test_page_pytorch.cpp.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/distributions.h>
#include <hero/nn/nn.h>

using namespace hero;

TEST_CASE("the page for PyTorch's users: distributions") {
  using namespace hero::distributions;
  manual_seed(0);
  const Tensor h = randn({4, 2}), scale = full({2}, 0.5), logits = randn({4, 3});
  const Tensor odds = full({2}, 0.25), factor = tensor({{1.0, 0.0}, {0.5, 2.0}});
  CHECK(Categorical({.logits = logits}).sample().shape() == Shape{4});
  CHECK(Normal(zeros({}), scale).log_prob(h).shape() == Shape{4, 2});
  CHECK(Gamma(scale, scale).rsample({4}).shape() == Shape{4, 2});
  CHECK(Binomial(12, {.probs = odds}).mean()[0].item() == 3.0);
  CHECK(MultivariateNormal(h[0], {.scale_tril = factor}).event_shape() == Shape{2});
  TransformedDistribution policy(Independent(Normal(h, scale), 1), TanhTransform());
  const auto [action, log_prob] = policy.rsample_with_log_prob();
  CHECK((action.shape() == Shape{4, 2} && log_prob.shape() == Shape{4}));
  const Normal p(h, scale), q(zeros({}), scale);
  CHECK(kl_divergence(p, q).shape() == Shape{4, 2});
  CHECK(Categorical({.logits = logits}).mode().shape() == Shape{4});
}

TEST_CASE("the page for PyTorch's users: error codes, limits and windows") {
  const Tensor m = tensor({{1.0, 2.0}, {3.0, 4.0}}), logits = randn({2, 3}), mask = logits > 0;
  const auto [lower, info] = cholesky_ex(matmul(m, m.mT()));
  CHECK(info.item<int>() == 0);
  CHECK(masked_fill(logits, mask, finfo(logits.dtype()).min).min().item() < -3e38);
  CHECK(hann_window(400).shape() == Shape{400});
}

TEST_CASE("the page for PyTorch's users: lists of parameters and computed weights") {
  struct Net : nn::Module {
    nn::ParameterList& scales = add<nn::ParameterList>("scales");
    Net() { scales.append(ones({8})); }
  };
  CHECK(Net().parameters().size() == 1);
  nn::Conv1d conv(6, 8, 3);
  nn::weight_norm(conv);
  nn::remove_parametrizations(conv);
  CHECK(conv.parameters().size() == 2);
  nn::Linear fc1(6, 8);
  nn::prune::l1_unstructured(fc1, "weight", 0.3);
  CHECK(fc1(ones({1, 6})).shape() == Shape{1, 8});
}
