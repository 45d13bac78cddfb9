// ZeRO-3: parameters in parts too, whole only while their layer computes
#include <list>

#include "support/lessons/data_parallel.h"
#include "support/pictures/strategies.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp;
using tutorial::all_gather_bytes, tutorial::flat_parameter_of, tutorial::bits_of, tutorial::Cut,
    tutorial::kAdam, tutorial::kSteps, tutorial::loss_of, tutorial::DeepNetwork,
    tutorial::reduce_scatter_bytes, tutorial::Report;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: unit]
// The parameters of one layer: whole while it computes, otherwise only this rank's part.
struct Unit {
  Unit(const Communicator& communicator, nn::Module& layer)
      : world(communicator),
        parameters(layer.parameters()),
        flat(flat_parameter_of(layer)),
        cut(world, flat.numel()) {
    flat.storage().retag(hero::MemoryTag::communication);
    const hero::MemoryScope scope(hero::MemoryTag::parameter);
    shard = Tensor(cut.mine(flat).clone(), true);
    free();
  }
  void gather() {
    if (!flat.storage().released()) return;
    const uint32_t version = flat.storage().version();
    flat.storage().refill();
    world.all_gather(flat, shard.array(), {.counts = cut.counts});
    flat.storage().restore_version(version);  // backward finds the values that forward saw
  }
  void free() { flat.storage().release(); }
  void reduce() {
    std::vector<Tensor> gradients;
    for (const Tensor& p : parameters) gradients.push_back(p.grad().flatten());
    std::optional<hero::MemoryScope> scope(hero::MemoryTag::communication);
    const Array packed = cat(gradients).array();
    scope.emplace(hero::MemoryTag::gradient);
    const Array mine = shard.array().empty_like();
    world.reduce_scatter(mine, packed, {.op = ReduceOp::mean, .counts = cut.counts});
    shard.set_grad(Tensor(mine));
    for (const Tensor& p : parameters) p.set_grad({});
  }
  const Communicator& world;
  std::vector<Tensor> parameters;
  Array flat;  // of which the parameters are windows; its bytes come and go
  Cut cut;
  Tensor shard;
  size_t ready = 0;  // gradients that are complete
};
// [end]

// [snippet: hooks]
void install(Unit& unit, nn::Module& layer) {
  layer.register_forward_pre_hook([&](auto&...) { unit.gather(); });
  layer.register_forward_hook([&](auto&...) { unit.free(); });
  layer.register_full_backward_pre_hook([&](auto&...) { unit.gather(); });
  for (const Tensor& p : unit.parameters) {
    p.register_leaf_hook([&](const Tensor&) {
      if (++unit.ready < unit.parameters.size()) return;
      unit.free();
      unit.reduce();
      unit.ready = 0;
    });
  }
}
// [end]

// [snippet: by_hand]
uint64_t by_hand(const Communicator& world, Report& report) {
  DeepNetwork net = tutorial::make_network();
  report.watch(net);
  std::list<Unit> units;
  std::vector<Tensor> shards;
  for (nn::Module* layer : net.children()) {
    Unit& unit = units.emplace_back(world, *layer);
    install(unit, *layer);
    shards.push_back(unit.shard);
  }
  optim::Adam adam(shards, kAdam);
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    const Tensor loss = loss_of(net, world.rank());
    loss.backward();
    adam.step();
    report.end(loss);
  }
  // [end]
  for (Unit& unit : units) unit.gather();
  return bits_of(net.parameters());
}

// Every layer is cut by itself; its parameters are gathered twice.
tutorial::StrategyFormula formula_by_hand(const Communicator& world) {
  DeepNetwork net = tutorial::make_network();
  int64_t part = 0, sent = 0;
  for (nn::Module* layer : net.children()) {
    const int64_t count = layer->parameter_count();
    const Cut cut(world, count);
    part += 4 * (cut.end - cut.begin);
    sent += 2 * all_gather_bytes(world, count) + reduce_scatter_bytes(world, count);
  }
  return {{part, part, 2 * part}, sent};
}

// A step of which `moments` are noted, after one that has made the optimizer's states.
void note_step(DeepNetwork& net, optim::Adam& adam, int rank, tutorial::Moments& moments) {
  loss_of(net, rank).backward();
  adam.step();
  adam.zero_grad();
  moments = {};
  moments.note();
  loss_of(net, rank).backward();
  moments.note();
  adam.step();
  moments.note("step");
}

tutorial::Moments moments_by_hand(const Communicator& world) {
  tutorial::Moments moments;
  DeepNetwork net = tutorial::make_network();
  std::list<Unit> units;
  std::vector<Tensor> shards;
  moments.watch_gradients(net);  // before their layer's are reduced
  for (nn::Module* layer : net.children()) {
    install(units.emplace_back(world, *layer), *layer);
    shards.push_back(units.back().shard);
  }
  moments.watch(net);
  moments.watch_gradients(net);
  optim::Adam adam(shards, kAdam);
  note_step(net, adam, world.rank(), moments);
  return moments;
}

tutorial::Moments moments_of_library(const Communicator& world) {
  tutorial::Moments moments;
  DeepNetwork net = tutorial::make_network();
  const auto zero = hero::dist::ZeRO(net, world, {.stage = 3});
  zero.on_event([&](const hero::dist::Event&) { moments.note(); });
  moments.watch(net);
  optim::Adam adam(net.parameters(), kAdam);
  note_step(net, adam, world.rank(), moments);
  return moments;
}

void draw_moments(const Communicator& world, const std::string& folder) {
  const tutorial::Moments by_hand = moments_by_hand(world), library = moments_of_library(world);
  if (world.rank() > 0) return;
  by_hand.draw("A step of ZeRO-3 by hand: what lies in a rank's memory", folder,
               "16_zero3_by_hand");
  library.draw("A step of ZeRO-3 by the library: what lies in a rank's memory", folder,
               "16_zero3_library");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "ZeRO-3: states, gradients and parameters in parts.";
  return tutorial::run_ranks(argc, argv, {.title = title}, [](Communicator& world, auto& options) {
    const uint64_t alone = tutorial::train_alone(world);
    Report report(world, "by hand");
    const uint64_t bits = by_hand(world, report);
    const auto expected = formula_by_hand(world);
    report.print(expected.held, expected.sent, bits, alone);
    Report library(world, "dist::ZeRO, stage 3");
    // [snippet: library]
    const tutorial::Strategy strategy = [](auto& net, auto& communicator) {
      return hero::dist::ZeRO(net, communicator, {.stage = 3});
    };
    // [end]
    const auto [library_bits, sizes] = tutorial::train(strategy, world, library);
    const auto formula = tutorial::formula_of(3, world, sizes);
    library.print(formula.held, formula.sent, library_bits, alone);
    tutorial::draw_strategies(3, world, options.out, "16_zero3_memory");
    draw_moments(world, options.out);
  });
}
