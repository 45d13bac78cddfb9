// What data parallelism keeps N times, and what the three stages of ZeRO make of it
#include "support/lessons/data_parallel.h"
#include "support/lessons/stages.h"
#include "support/options/device.h"
#include "support/pictures/sharing.h"

#include <hero/optim/optim.h>

using hero::MemoryTag, hero::Tensor;
using hero::dist::Communicator;
using tutorial::say, tutorial::StageBytes;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: copies]
void copies(const Communicator& world) {
  tutorial::DeepNetwork net = tutorial::make_network();
  const dist::DDP ddp(net, world);
  optim::Adam adam(net.parameters(), tutorial::kAdam);
  tutorial::loss_of(net, world.rank()).backward();
  adam.step();
  const hero::Ledger& ledger = hero::current_ledger();
  std::vector<Tensor> gradients, states;
  for (const Tensor& p : net.parameters()) gradients.push_back(p.grad());
  for (const auto& [name, array] : adam.state_dict()) states.push_back(Tensor(array));
  const auto row = [&](const char* what, MemoryTag tag, const std::vector<Tensor>& values) {
    const bool same = tutorial::same_everywhere(world, tutorial::bits_of(values));
    const double megabytes = 1e-6 * static_cast<double>(ledger.live(tag, tutorial::device().type));
    say(world, "  %-14s %8.2f MB %11.2f MB   %s\n", what, megabytes, megabytes * world.size(),
        same ? "the same bits" : "they differ");
  };
  say(world, "DDP              of a rank of %2d ranks   on all ranks\n", world.size());
  row("parameters", MemoryTag::parameter, net.parameters());
  row("gradients", MemoryTag::gradient, gradients);
  row("Adam's states", MemoryTag::optimizer, states);
}
// [end]

// [snippet: model]
// A chain of square matrices in 16 bits.
struct Model : nn::Sequential {
  Model(int layers, int64_t width) {
    for (int i = 0; i < layers; ++i) {
      append<nn::Linear>(width, width, nn::LinearOptions{.bias = false});
    }
    to(hero::kFloat16);
  }
};
// [end]

// [snippet: put]
void put_on_stage(int stage, nn::Module& model, const Communicator& world) {
  if (stage == 0) dist::DDP(model, world);
  if (stage > 0) dist::ZeRO(model, world, {.stage = stage});
}
// [end]

// [snippet: simulate]
// What one of N ranks holds after a step of training `layers` matrices of width x width.
StageBytes held(int stage, int ranks, int layers, int64_t width) {
  StageBytes bytes;
  dist::simulate_ranks(
      ranks,
      [&](Communicator& world) {
        const nn::DeviceScope meta(hero::kMeta);  // shapes and ledgers, no memory
        Model model(layers, width);
        put_on_stage(stage, model, world);
        optim::MasterWeights<optim::Adam> adam(model.parameters());
        const Tensor x = hero::empty({1, width}, {.dtype = hero::kFloat16, .device = hero::kMeta});
        sum(model(x)).backward();
        adam.step();
        const hero::Ledger& ledger = hero::current_ledger();
        bytes = {ledger.live(MemoryTag::parameter, hero::DeviceType::meta),
                 ledger.live(MemoryTag::gradient, hero::DeviceType::meta),
                 ledger.live(MemoryTag::optimizer, hero::DeviceType::meta)};
      },
      {0});
  return bytes;
}
// [end]

void slides(const Communicator& world, const std::string& folder) {
  constexpr int kRanks = 64;
  const char* names[] = {"baseline", "P_os", "P_os+g", "P_os+g+p"};
  say(world, "\n7.5 B parameters of 16 bits, Adam with float32 masters (K = 12), N = 64 ranks\n");
  say(world, "             parameters  gradients  optimizer  together   formula   32 GB hold\n");
  std::vector<StageBytes> stages;
  for (int stage = 0; stage <= 3; ++stage) {
    const StageBytes bytes = held(stage, kRanks, 75, 10'000);
    stages.push_back(bytes);
    say(world, "  %-9s %7.2f GB %7.2f GB %7.2f GB %7.1f GB %5.1f GB %8.1f B\n", names[stage],
        1e-9 * static_cast<double>(bytes.parameters), 1e-9 * static_cast<double>(bytes.gradients),
        1e-9 * static_cast<double>(bytes.optimizer), 1e-9 * bytes.sum(),
        7.5 * tutorial::bytes_each(stage, kRanks), 32 * 7.5 / (1e-9 * bytes.sum()));
  }
  tutorial::draw_stage_bars(stages, folder);
}

void paper(const Communicator& world, const std::string& folder) {
  struct Size {
    const char* name;
    int layers;
    int64_t width;
  };
  const Size sizes[] = {{"7.5 B", 75, 10'000}, {"128 B", 80, 40'000}, {"1 T", 100, 100'000}};
  say(world, "\nGB per rank%14s%24s%24s\n     N", "7.5 B", "128 B", "1 T");
  for (int i = 0; i < 3; ++i) say(world, "   %7s%7s%7s", "P_os", "+g", "+p");
  say(world, "\n");
  tutorial::StageCurves curves;
  for (const int ranks : {1, 4, 16, 64, 256, 1024}) {
    say(world, "  %4d", ranks);
    for (const Size& size : sizes) {
      for (int stage = 1; stage <= 3; ++stage) {
        const double gigabytes = 1e-9 * held(stage, ranks, size.layers, size.width).sum();
        say(world, "%s%*.*f", stage == 1 ? "   " : "", 7,
            gigabytes < 10    ? 2
            : gigabytes < 100 ? 1
                              : 0,
            gigabytes);
        if (size.layers == 75) curves.add(stage, ranks, gigabytes);
      }
    }
    say(world, "\n");
  }
  curves.draw(folder);
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Memory of data parallelism and of the stages of ZeRO, from the ledger.";
  return tutorial::run_ranks(argc, argv, {.title = title, .trains = false},
                             [](Communicator& world, auto& options) {
                               copies(world);
                               if (world.rank() > 0) return;
                               slides(world, options.out);
                               paper(world, options.out);
                               tutorial::draw_resumed(options.out);
                             });
}
