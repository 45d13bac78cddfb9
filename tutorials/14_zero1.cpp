// ZeRO-1: every rank keeps the optimizer's states of its own part, by hand and by the library
#include "support/lessons/data_parallel.h"
#include "support/pictures/flat_parameters.h"
#include "support/pictures/strategies.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;
using tutorial::all_gather_bytes, tutorial::bits_of, tutorial::Cut, tutorial::reduce_scatter_bytes,
    tutorial::kAdam, tutorial::kSteps, tutorial::loss_of, tutorial::DeepNetwork, tutorial::Report;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: by_hand]
uint64_t by_hand(const Communicator& world, Report& report) {
  DeepNetwork net = tutorial::make_network();
  report.watch(net);
  const Array parameters = flat_parameter_of(net), gradients = flat_gradient_of(net);
  const Cut cut(world, parameters.numel());
  const Tensor shard(cut.mine(parameters), true);  // this rank's part, as one parameter
  optim::Adam adam({shard}, kAdam);                // states for this part only
  for (int step = 0; step < kSteps; ++step) {
    Tensor(gradients).zero_();
    const Tensor loss = loss_of(net, world.rank());
    loss.backward();
    const Array my_gradient = cut.mine(gradients);
    world.reduce_scatter(my_gradient, gradients, {.op = ReduceOp::mean, .counts = cut.counts});
    shard.set_grad(Tensor(my_gradient));
    adam.step();
    world.all_gather(parameters, shard.array(), {.counts = cut.counts});
    report.end(loss);
  }
  return bits_of(net.parameters());
}
// [end]

void draw_flat_parameter_of(const Communicator& world, const Cut& cut, const std::string& folder) {
  if (world.rank() > 0) return;
  std::vector<tutorial::InFlatParameter> places;
  int64_t at = 0;
  DeepNetwork net = tutorial::make_network();
  for (const nn::Module* layer : net.children()) {  // of each the weight and the bias
    places.push_back({layer->name(), at, layer->parameter_count()});
    at += layer->parameter_count();
  }
  tutorial::draw_flat_parameter("The flat parameter, and the shard of each rank", places,
                                cut.counts, folder, "14_zero1_flat_parameter");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "ZeRO-1: the optimizer's states in parts.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    const uint64_t alone = tutorial::train_alone(world);
    const int64_t count = tutorial::make_network().parameter_count(), psi = 4 * count;
    const Cut cut(world, count);
    Report report(world, "by hand");
    const uint64_t bits = by_hand(world, report);
    const int64_t sent = reduce_scatter_bytes(world, count) + all_gather_bytes(world, count);
    report.print({psi, psi, 2 * 4 * (cut.end - cut.begin)}, sent, bits, alone);
    Report library(world, "dist::ZeRO, stage 1");
    // [snippet: library]
    const tutorial::Strategy strategy = [](auto& net, auto& communicator) {
      return hero::dist::ZeRO(net, communicator, {.stage = 1, .bucket_bytes = 1 << 18});
    };
    // [end]
    const auto [library_bits, units] = tutorial::train(strategy, world, library);
    const auto formula = tutorial::formula_of(1, world, units);
    library.print(formula.held, formula.sent, library_bits, alone);
    draw_flat_parameter_of(world, cut, options.out);
    tutorial::draw_strategies(1, world, options.out, "14_zero1_memory");
  });
}
