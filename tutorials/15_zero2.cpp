// ZeRO-2: gradients in parts too, reduced and freed while backward goes on
#include "support/lessons/data_parallel.h"
#include "support/pictures/flat_parameters.h"
#include "support/pictures/strategies.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;
using tutorial::all_gather_bytes, tutorial::bits_of, tutorial::Cut, tutorial::reduce_scatter_bytes,
    tutorial::kAdam, tutorial::kSteps, tutorial::loss_of, tutorial::DeepNetwork, tutorial::Report;
namespace optim = hero::optim;

namespace {

// [snippet: owned]
// Of the elements first ... first + count - 1 of the flat parameter, those in each rank's part.
std::vector<int64_t> owned(const Cut& cut, int64_t first, int64_t count) {
  std::vector<int64_t> counts;
  int64_t begin = 0;
  for (const int64_t part : cut.counts) {
    const int64_t from = std::max(begin, first), to = std::min(begin + part, first + count);
    counts.push_back(std::max<int64_t>(0, to - from));
    begin += part;
  }
  return counts;
}
// [end]

// [snippet: by_hand]
uint64_t by_hand(const Communicator& world, Report& report) {
  DeepNetwork net = tutorial::make_network();
  report.watch(net);
  const Array parameters = flat_parameter_of(net);
  const Cut cut(world, parameters.numel());
  const Tensor shard(cut.mine(parameters), true);
  std::optional<hero::MemoryScope> scope(hero::MemoryTag::gradient);
  const Array my_gradient = zeros_like(shard).array();  // all gradients that stay
  scope.reset();
  int64_t first = 0;
  for (const Tensor& p : net.parameters()) {
    p.register_leaf_hook([&, first](const Tensor& leaf) {  // its gradient is complete
      const auto counts = owned(cut, first, leaf.numel());
      const int64_t at = std::clamp(first, cut.begin, cut.end) - cut.begin;
      const Array mine = my_gradient.slice(0, at, at + counts[static_cast<size_t>(world.rank())]);
      world.reduce_scatter(mine, leaf.grad().array(), {.op = ReduceOp::mean, .counts = counts});
      leaf.set_grad({});  // freed
    });
    first += p.numel();
  }
  optim::Adam adam({shard}, kAdam);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor loss = loss_of(net, world.rank());
    loss.backward();
    shard.set_grad(Tensor(my_gradient));
    adam.step();
    world.all_gather(parameters, shard.array(), {.counts = cut.counts});
    report.end(loss);
  }
  return bits_of(net.parameters());
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  const char* title = "ZeRO-2: the optimizer's states and the gradients in parts.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    const uint64_t alone = tutorial::train_alone(world);
    const int64_t count = tutorial::make_network().parameter_count();
    const Cut cut(world, count);
    const int64_t part = 4 * (cut.end - cut.begin);
    Report report(world, "by hand");
    const uint64_t bits = by_hand(world, report);
    const int64_t sent = reduce_scatter_bytes(world, count) + all_gather_bytes(world, count);
    report.print({4 * count, part, 2 * part}, sent, bits, alone);
    Report library(world, "dist::ZeRO, stage 2");
    // [snippet: library]
    const tutorial::Strategy strategy = [](auto& net, auto& communicator) {
      return hero::dist::ZeRO(net, communicator, {.stage = 2, .bucket_bytes = 1 << 18});
    };
    // [end]
    const auto [library_bits, units] = tutorial::train(strategy, world, library);
    const auto formula = tutorial::formula_of(2, world, units);
    library.print(formula.held, formula.sent, library_bits, alone);
    if (world.rank() == 0) {
      const std::vector<hero::dist::UnitInfo> three(units.begin(), units.begin() + 3);
      tutorial::draw_units("Three of the library's units, and the shard of each rank", three,
                           world.size(), options.out, "15_zero2_units");
    }
    tutorial::draw_strategies(2, world, options.out, "15_zero2_memory");
  });
}
