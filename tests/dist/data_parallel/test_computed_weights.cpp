// Layers whose weights are computed from other parameters before each call.
#include "dist/data_parallel/strategies.h"
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/parametrize.h>
#include <hero/optim/accumulator.h>

namespace {

using namespace hero;
using namespace hero::test;

struct Computed : nn::Module {
  nn::Linear& spectral = add<nn::Linear>("spectral", 7, 6);
  nn::Linear& length = add<nn::Linear>("length", 6, 9, nn::LinearOptions{.bias = false});
  nn::Linear& out = add<nn::Linear>("out", 9, 5);
  Computed() {
    nn::spectral_norm(spectral);
    nn::weight_norm(length);
  }
  Tensor forward(const Tensor& x) override { return out(tanh(length(tanh(spectral(x))))); }
};

std::unique_ptr<Computed> make_computed() {
  manual_seed(8);
  return std::make_unique<Computed>();
}

Tensor computed_loss(nn::Module& model, int step, int rank) {
  return square(model(Tensor(noise({4, 7}, kFloat32, static_cast<uint64_t>(3 * step + rank)))))
      .sum();
}

// One process whose batches all begin with the vectors that the ranks begin with.
nn::StateDict train_alone(int ranks, int steps) {
  const auto model = make_computed();
  const auto sgd = make_method(Method::sgd, model->parameters());
  const auto buffers = model->buffers();
  for (int step = 0; step < steps; ++step) {
    std::vector<Array> before;
    for (const Tensor& buffer : buffers) before.push_back(buffer.array().clone());
    optim::Accumulator gradients(model->parameters());
    for (int rank = 0; rank < ranks; ++rank) {
      const NoGrad no_grad;
      for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(Tensor(before[i]));
      const EnableGrad enabled;
      computed_loss(*model, step, rank).backward();
      gradients.add();
    }
    gradients.mean();
    finish_step(*model, *sgd, 0.5);
  }
  return model->state_dict();
}

TEST_CASE("weights that are computed from others train alike under every strategy") {
  const nn::StateDict expected = train_alone(3, 3);
  for (const int strategy : {0, 1, 2, 3, 4, 5, 6}) {
    CAPTURE(strategy);
    dist::run_ranks(3, [&](dist::Communicator& world) {
      const auto model = make_computed();
      const auto climb = [&]() -> dist::DataParallel {
        if (strategy == 0) return dist::DDP(*model, world);
        if (strategy < 4) return dist::ZeRO(*model, world, {.stage = strategy});
        if (strategy == 4)
          return dist::fully_shard(*model, world, {.unit = dist::each<nn::Linear>()});
        return dist::fully_shard(*model, world, {.unit = dist::at_least(strategy == 5 ? 1 : 50)});
      };
      const dist::DataParallel parallel = climb();
      for (const dist::UnitInfo& unit : parallel.units()) {
        expect(unit.name.find("parametrizations") == std::string::npos, "no unit of its own");
      }
      const auto sgd = make_method(Method::sgd, model->parameters());
      for (int step = 0; step < 3; ++step) {
        computed_loss(*model, step, world.rank()).backward();
        finish_step(*model, *sgd, 0.5);
      }
      expect(same_state(parallel.full_state_dict(), expected), "the bits of one process");
    });
  }
}

}  // namespace
