// The code on the page of distributions, compiled and run.
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace pages {

// [snippet: policy]
using namespace hero::distributions;

struct Actor : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 1, 32);
  nn::Linear& out = add<nn::Linear>("out", 32, 2);

  // For states [N, 1] distributions of actions in (-2, 2), each an event of one number.
  TransformedDistribution policy(const Tensor& state) {
    const Tensor both = out(tanh(hidden(state)));
    const Tensor mean = both.narrow(-1, 0, 1), log_stddev = clamp(both.narrow(-1, 1, 1), -5, 2);
    return {Independent(Normal(mean, exp(log_stddev)), 1), TanhTransform(),
            AffineTransform(0.0, 2.0)};
  }
};
// [end]

}  // namespace pages

TEST_CASE("the squashed policy of the page of distributions learns") {
  using pages::Actor;
  manual_seed(1);
  Actor actor;
  optim::Adam adam(actor.parameters(), {.lr = 3e-3});
  for (int step = 0; step < 1500; ++step) {
    const Tensor state = 2 * rand({64, 1}) - 1;
    const auto [action, log_prob] = actor.policy(state).rsample_with_log_prob();
    const Tensor value = -square(action - 1.5 * sin(2 * state)).sum(-1);  // a critic's, in SAC
    (0.1 * log_prob - value).mean().backward();
    adam.step();
    adam.zero_grad();
  }
  // The best policy has the density exp(value / 0.1): about a normal one of this deviation.
  const NoGrad no_grad;
  const Tensor state = tensor({{-0.8}, {-0.3}, {0.1}, {0.6}});
  const Tensor drawn = actor.policy(state).sample({2000});
  CHECK(max(abs(mean(drawn, {0}) - 1.5 * sin(2 * state))).item() < 0.12);
  CHECK(max(abs(drawn.std({0}) - std::sqrt(0.05))).item() < 0.08);
}
