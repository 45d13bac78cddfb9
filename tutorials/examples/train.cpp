// A whole training program: Fashion-MNIST, a small network, any strategy on any number of
// ranks that divides four, checkpoints and resuming. docs/first_program.md explains it.
//
//   ./train --strategy fsdp --ranks 2 --steps 1250 --run runs/first
// [snippet: program]
#include <cstdlib>
#include <map>
#include <ostream>
#include <string>

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::nn::data;

struct MLP : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 784, 256);
  nn::Linear& out = add<nn::Linear>("out", 256, 10);
  Tensor forward(const Tensor& x) override { return out(relu(hidden(x.flatten(1)))); }
};

void apply_strategy(const std::string& strategy, nn::Module& model, dist::Communicator& world) {
  const bool zero = strategy.starts_with("zero") && strategy.size() == 5;
  check(strategy == "ddp" || strategy == "fsdp" || zero, "train: no strategy ", strategy);
  if (strategy == "ddp") dist::DDP(model, world);
  if (strategy == "fsdp") dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
  if (zero) dist::ZeRO(model, world, {.stage = strategy.back() - '0'});
}

double accuracy(nn::Module& model) {  // on a sharded model this is a call of all ranks
  const NoGrad no_grad;
  DataLoader loader(FashionMNIST({.train = false}), {.batch_size = 10000});
  const Example test = *loader.begin();
  return mean(eq(argmax(model(test[0]), 1), test[1]).to(kFloat32)).item();
}

void train(dist::Communicator& world, int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--strategy", "ddp"}, {"--steps", "1250"}, {"--run", "runs/first"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  check(options.size() == 3 && argc % 2 == 1, "train: options are --strategy, --steps and --run");
  const int64_t steps = std::atoll(options.at("--steps").c_str());
  check(steps > 0 && std::to_string(steps) == options.at("--steps"), "train: --steps ",
        options.at("--steps"), " is no whole number above 0");
  const int ranks = world.size(), parts = 4;  // the ranks take turns with 4 parts of each batch
  check(parts % ranks == 0, "train: ", ranks, " ranks; use 1, 2 or 4");
  manual_seed(1);
  MLP model;
  apply_strategy(options.at("--strategy"), model, world);
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const FashionMNIST images({.train = true});
  DistributedSampler turns(images, {.num_replicas = ranks, .rank = world.rank(), .turn = 24});
  DataLoader loader(images, {.batch_size = 24, .sampler = &turns});
  dist::Checkpointer checkpoint(options.at("--run"), world);
  checkpoint.track("model", model);
  checkpoint.track("optimizer", adamw);
  checkpoint.track("loader", loader);
  int64_t step = checkpoint.resume().value_or(0);  // 0: there is no checkpoint yet
  const auto style = world.rank() == 0 ? nn::ProgressStyle::automatic : nn::ProgressStyle::silent;
  nn::Progress progress({.total = steps, .start = step, .style = style});
  optim::Accumulator gradients(model.parameters());
  while (step < steps) {
    for (const auto& [x, y] : loader) {
      const Tensor loss = cross_entropy(model(x), y);
      loss.backward();
      gradients.add();
      if (gradients.count() < parts / ranks) continue;
      gradients.mean();
      adamw.step();
      adamw.zero_grad();
      progress.update(++step, {{"loss", loss.item()}});
      if (step % 250 == 0 || step == steps) checkpoint.save(step);
      if (step == steps) break;
    }
  }
  dist::save_full(options.at("--run") + "/model.safetensors", world, model);
  world.out() << "accuracy after " << step << " steps: " << accuracy(model) << "\n";
}

int main(int argc, char** argv) {
  return dist::launch(argc, argv, [&](auto& world) { train(world, argc, argv); });
}
// [end]
