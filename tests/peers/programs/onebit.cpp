// Trains the task of onebit.py on ranks as threads, by Adam or 1-bit Adam.
//   onebit TASK RANKS FREEZE LR EPS METHOD     METHOD: adam or onebit
// Prints the mean of the ranks' losses, one line a step, and then the bytes that a rank sent in the
// last step.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/core/safetensors.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

struct Network : nn::Module {
  nn::Linear& fc1;
  nn::Linear& fc2;
  explicit Network(const core::NamedArrays& task)
      : fc1(add<nn::Linear>("fc1", task.at("fc1.weight").size(1), task.at("fc1.weight").size(0))),
        fc2(add<nn::Linear>("fc2", task.at("fc2.weight").size(1), task.at("fc2.weight").size(0))) {
    const NoGrad no_grad;
    for (const auto& [name, parameter] : named_parameters()) {
      parameter.copy_(Tensor(task.at(name)));
    }
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: onebit TASK RANKS FREEZE LR EPS METHOD\n");
    return 2;
  }
  const core::NamedArrays task = core::load_safetensors(argv[1]);
  const int ranks = std::atoi(argv[2]);
  const int64_t freeze = std::atoll(argv[3]);
  const double lr = std::atof(argv[4]), eps = std::atof(argv[5]);
  const bool bits = std::string(argv[6]) == "onebit";
  constexpr std::array<double, 2> kBetas = {0.9, 0.95};
  const Tensor x(task.at("x")), y(task.at("y"));  // [steps, ranks, batch, ..]
  std::vector<double> losses(static_cast<size_t>(x.size(0)), 0.0);
  int64_t sent = 0;
  std::mutex adding;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    Network model(task);
    const dist::DDP ddp(model, world);
    std::unique_ptr<optim::Optimizer> optimizer;
    if (bits) {
      optimizer = std::make_unique<dist::OneBitAdam>(
          ddp, model.parameters(),
          dist::OneBitAdamOptions{.lr = lr, .betas = kBetas, .eps = eps, .freeze_step = freeze});
    } else {
      optimizer = std::make_unique<optim::Adam>(
          model.parameters(), optim::AdamOptions{.lr = lr, .betas = kBetas, .eps = eps});
    }
    for (int64_t step = 0; step < x.size(0); ++step) {
      const int64_t before = world.traffic().bytes();
      const Tensor loss = cross_entropy(model(x.select(0, step).select(0, world.rank())),
                                        y.select(0, step).select(0, world.rank()));
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
      const std::lock_guard lock(adding);
      losses[static_cast<size_t>(step)] += loss.item() / ranks;
      sent = world.traffic().bytes() - before;
    }
  });
  for (const double loss : losses) std::printf("%.6f\n", loss);
  std::printf("%lld\n", static_cast<long long>(sent));
}
