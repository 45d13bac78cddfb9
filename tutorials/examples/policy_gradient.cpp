// REINFORCE: a network learns to balance a pole on a cart, from nothing but how long it stayed up.
// Williams, 1992; the cart is that of Barto, Sutton and Anderson, 1983.
// docs/guides/distributions.md explains it.
//
//   ./policy_gradient --episodes 500

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

// Position and speed of the cart, angle and speed of the pole.
struct Cart {
  double x = 0.0, v = 0.0, angle = 0.0, spin = 0.0;

  Tensor state() const {
    return tensor({static_cast<float>(x), static_cast<float>(v), static_cast<float>(angle),
                   static_cast<float>(spin)});
  }
  // A fiftieth of a second of a push of 10 N; false once the pole has fallen or the cart has left.
  bool push(bool right) {
    constexpr double kGravity = 9.8, kTotal = 1.1, kPole = 0.1, kHalf = 0.5, kStep = 0.02;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double force = ((right ? 10.0 : -10.0) + kPole * kHalf * spin * spin * sine) / kTotal;
    const double turn = (kGravity * sine - cosine * force) /
                        (kHalf * (4.0 / 3.0 - kPole * cosine * cosine / kTotal));
    const double gain = force - kPole * kHalf * turn * cosine / kTotal;
    x += kStep * v;
    v += kStep * gain;
    angle += kStep * spin;
    spin += kStep * turn;
    return std::fabs(x) < 2.4 && std::fabs(angle) < 0.2094;
  }
};

struct Episode {
  std::vector<Tensor> states, actions;
};

// Up to 200 steps of a policy that draws each action.
Episode play(nn::Module& policy) {
  const NoGrad no_grad;
  const std::vector<double> start = (0.1 * rand({4}) - 0.05).to_vector<double>();
  Cart cart{start[0], start[1], start[2], start[3]};
  Episode episode;
  for (bool up = true; up && episode.states.size() < 200;) {
    episode.states.push_back(cart.state());
    const distributions::Categorical choice({.logits = policy(cart.state())});
    episode.actions.push_back(choice.sample());
    up = cart.push(episode.actions.back().item() == 1.0);
  }
  return episode;
}

// What each step was followed by, later rewards counting less, without their mean.
Tensor returns_of(size_t steps) {
  std::vector<float> values(steps);
  float later = 0.0f;
  for (size_t t = steps; t-- > 0;) values[t] = later = 1.0f + 0.99f * later;
  const Tensor returns = tensor(values);
  return (returns - returns.mean()) / (returns.std() + 1e-6);
}

// The number behind --episodes, or that of a run without options; 0 where it is neither.
int episodes_of(int argc, char** argv) {
  if (argc == 1) return 500;
  const int number = argc == 3 && argv[1] == std::string("--episodes") ? std::atoi(argv[2]) : 0;
  return number > 0 && std::to_string(number) == argv[2] ? number : 0;
}

int main(int argc, char** argv) {
  const int episodes = episodes_of(argc, argv);
  if (episodes == 0) {
    std::fputs("usage: policy_gradient [--episodes N], N at least 1\n", stderr);
    return 2;
  }
  manual_seed(3);
  nn::Sequential policy{nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 2)};
  optim::AdamW adamw(policy.parameters(), {.lr = 1e-2});
  double average = 0.0;
  for (int i = 1; i <= episodes; ++i) {
    // [snippet: step]
    const Episode episode = play(policy);
    const size_t steps = episode.states.size();
    const distributions::Categorical choices({.logits = policy(stack(episode.states))});
    const Tensor score = choices.log_prob(stack(episode.actions)) * returns_of(steps);
    (-score.mean() - 0.01 * choices.entropy().mean()).backward();
    adamw.step();
    adamw.zero_grad();
    // [end]
    average += (static_cast<double>(steps) - average) / std::min(i, 20);
    if (i % 50 == 0) std::printf("episode %d: the pole stays up for %.0f steps\n", i, average);
  }
}
