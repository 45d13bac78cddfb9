// Beside PyTorch's outputs in test_golden_layers.cpp: what holds between the functions.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/adaptive_softmax.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an adaptive softmax gives probabilities, and the likeliest class") {
  manual_seed(3);
  nn::AdaptiveLogSoftmaxWithLoss layer(8, 12, {3, 6, 9}, {.div_value = 2.0, .head_bias = true});
  const Tensor x = randn({20, 8}) * 4.0, target = randint(0, 12, {20});
  const Tensor all = layer.log_prob(x);
  CHECK(allclose(exp(all).sum({1}), ones({20}), 1e-5, 1e-5));
  const auto [output, loss] = layer(x, target);
  CHECK(allclose(output, gather(all, 1, target.unsqueeze(1)).squeeze(1), 1e-5, 1e-6));
  CHECK(allclose(loss, -output.mean()));
  // A class of the head wins there; where a cluster wins, all classes are compared.
  const Tensor head = argmax(layer.head(x), 1), found = layer.predict(x);
  CHECK(equal(found, where(head < 3, head, argmax(all, 1))));
  CHECK(sum(head < 3).item() > 0);
  CHECK(sum(head >= 3).item() > 0);
}

TEST_CASE("an adaptive softmax learns, and names what it cannot take") {
  manual_seed(3);
  nn::AdaptiveLogSoftmaxWithLoss layer(8, 10, {2, 5}, {.div_value = 2.0});
  const Tensor x = randn({10, 8}), target = arange(10);
  optim::AdamW adamw(layer.parameters(), {.lr = 5e-2});
  for (int step = 0; step < 200; ++step) {
    adamw.zero_grad();
    layer(x, target).loss.backward();
    adamw.step();
  }
  CHECK(equal(layer.predict(x), target));
  CHECK_THROWS_WITH(layer(x, target + 1), ContainsSubstring("target 10 at position 9"));
  CHECK_THROWS_WITH(layer(x, target.slice(0, 0, 3)), ContainsSubstring("targets have shape [3]"));
  CHECK_THROWS_WITH(layer(randn({10, 7}), target), ContainsSubstring("expected [N, 8]"));
  CHECK_THROWS_WITH(nn::AdaptiveLogSoftmaxWithLoss(8, 10, {5, 5}), ContainsSubstring("increase"));
  CHECK_THROWS_WITH(nn::AdaptiveLogSoftmaxWithLoss(8, 10, {}), ContainsSubstring("are empty"));
  CHECK_THROWS_WITH(nn::AdaptiveLogSoftmaxWithLoss(8, 10, {2, 5}),
                    ContainsSubstring("cluster 1 would pass through 8 / 16 elements"));
}

}  // namespace
