// Where a unit's parameters lie in its flat parameter.
#include <algorithm>
#include <cstdint>
#include <random>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/dist/data_parallel/wrap.h>

using namespace hero;
using namespace hero::test;

namespace {

// Whether whole parameters begin at multiples of 16 bytes when a layer computes with them.
bool aligned(const nn::Linear& layer) {
  const auto is_aligned = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.array().bytes()) % 16 == 0;
  };
  return is_aligned(layer.weight) && is_aligned(layer.bias);
}

/// Parameters of 91, 13, 143, 11, 55, 5 and 1 elements.
struct OddSizes : SmallMLP {
  Tensor& scale = parameter("scale", Shape{}, nn::init::ones());
  Tensor forward(const Tensor& x) override { return SmallMLP::forward(x) * scale; }
};

}  // namespace

TEST_CASE("whole parameters of any sizes begin at multiples of 16 bytes") {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    for (const int ranks : {2, 3}) {
      for (const int stage : {1, 2, 3, 4}) {
        CAPTURE(dtype, ranks, stage);
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          OddSizes model;
          model.to(dtype);
          const auto parallel =
              stage == 4 ? dist::fully_shard(model, world)
                         : dist::DataParallel(dist::ZeRO(model, world, {.stage = stage}));
          int seen = 0;
          for (nn::Linear* layer : {&model.fc1, &model.fc2, &model.fc3}) {
            layer->register_forward_pre_hook([&, layer](nn::Module&, const nn::Tensors&) {
              expect(aligned(*layer), "weights and biases begin at multiples of 16 bytes");
              ++seen;
              return nn::Tensors{};
            });
          }
          sum(model(Tensor(noise({2, 7}, dtype)))).backward();
          expect(seen == 3, "forward was seen");
          int64_t numel = 0, flat = 0, parts = 0, ends = 0;
          for (const dist::UnitInfo& unit : parallel.units()) {
            numel += unit.numel;
            flat += unit.flat_numel;
            parts += static_cast<int64_t>(unit.parameters.size());
            ends += 8 * ranks;
          }
          expect(numel == 91 + 13 + 143 + 11 + 55 + 5 + 1, "all elements");
          expect(flat > numel && flat < numel + 8 * parts + ends,
                 "gaps of fewer than 8 elements, and as many for each rank: ", flat);
        });
      }
    }
  }
}

TEST_CASE("flat parameters of sizes that are multiples of 8 for each rank have no gaps") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    nn::GPT model({.vocab_size = 24, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
    for (const dist::UnitInfo& unit :
         dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()}).units()) {
      expect(unit.flat_numel == unit.numel, unit.name);
    }
  });
}

TEST_CASE("gaps in a flat parameter are zeros in memory and in what travels") {
  dist::run_ranks(3, [](dist::Communicator& world) {
    OddSizes model;
    const auto parallel = dist::fully_shard(model, world);
    const auto adamw = make_method(Method::adamw, model.parameters());
    for (int step = 0; step < 3; ++step) {
      sum(model(Tensor(noise({2, 7}, kFloat32)))).backward();
      finish_step(model, *adamw, 0.5);
    }
    const int64_t own = parallel.units()[0].own.count;
    int64_t held = 0;
    for (const Tensor& p : model.parameters()) held += p.numel();
    expect(current_ledger().live(MemoryTag::parameter) == 4 * own, "a third of the flat parameter");
    expect(held <= own, "and what of it are parameters");
    const nn::StateDict state = parallel.full_state_dict();
    for (const auto& entry : state) {
      for (const float v : entry.array.to_vector<float>()) expect(std::isfinite(v), entry.name);
    }
  });
}

namespace {

using dist::Chunk;

/// Up to six parameters of up to three dimensions: scalars, odd sizes, some without elements.
struct RandomShapes : nn::Module {
  explicit RandomShapes(uint64_t seed) {
    std::mt19937_64 draw(seed);
    const uint64_t count = 1 + draw() % 6;
    for (uint64_t i = 0; i < count; ++i) {
      Shape shape;
      for (uint64_t d = draw() % 4; d > 0; --d) {
        shape.push_back(static_cast<int64_t>(draw() % 20 == 0 ? 0 : 1 + draw() % 9));
      }
      parameter("p" + std::to_string(i), shape, nn::init::normal());
    }
  }
};

/// How a random flat parameter is cut: `replicas` groups share the ranks.
struct FlatCase {
  uint64_t seed;
  int replicas;
  DType dtype;
  dist::Stage stage;
};

dist::Groups groups_of(const dist::Communicator& world, int replicas) {
  if (replicas == 1) return {world, {}};
  const dist::Mesh mesh(world, {{"replicate", replicas}, {"shard", world.size() / replicas}});
  return {mesh["shard"], mesh["replicate"], mesh.world()};
}

// Calls fn with every range of the flat parameter in which no parameter lies.
template <class Fn>
void each_gap(const dist::Unit& unit, const Fn& fn) {
  int64_t end = 0;
  for (const dist::UnitParameter& parameter : unit.parameters()) {
    fn(Chunk{end, parameter.place.begin - end});
    end = parameter.place.begin + parameter.place.count;
  }
  fn(Chunk{end, unit.flat_numel() - end});
}

void expect_zero_gaps(const dist::Unit& unit, const Array& flat) {
  const std::vector<double> values = flat.to(kFloat64).to_vector<double>();
  each_gap(unit, [&](const Chunk& gap) {
    expect(gap.count >= 0, "members lie one behind the other");
    for (int64_t i = gap.begin; i < gap.begin + gap.count; ++i) {
      expect(values[static_cast<size_t>(i)] == 0.0, "zero between and behind the parameters: ", i);
    }
  });
}

// Equal parts of whole packs, which together are the flat parameter, and no longer than they must
// be.
void check_flat_parts(const dist::Unit& unit, const dist::Communicator& shard, int world) {
  const dist::UnitParameter& last = unit.parameters().back();
  const int64_t end = last.place.begin + last.place.count;
  expect(unit.flat_numel() % (8 * world) == 0 && unit.flat_numel() >= end &&
             unit.flat_numel() - end < 8 * world,
         "whole packs for each rank: ", unit.flat_numel());
  expect(unit.own().count * shard.size() == unit.flat_numel(), "equal parts");
  expect(unit.own().begin == shard.rank() * unit.own().count, "in the order of ranks");
  for (const dist::UnitParameter& parameter : unit.parameters()) {
    expect(parameter.place.begin % 8 == 0, "begins at 16 bytes in every dtype");
    int64_t covered = 0, mine = 0;
    for (const dist::HeldPart& held : unit.parts_of(parameter)) {
      expect(held.part.begin == covered && held.part.count > 0, "each element once");
      covered += held.part.count;
      const bool here = std::count(held.ranks.begin(), held.ranks.end(), shard.world_rank()) > 0;
      mine += here ? held.part.count : 0;
    }
    expect(covered == parameter.place.count, "all elements");
    expect(mine == parameter.leaf.numel(), "a rank's leaf is its part, without padding");
  }
}

// Element j of rank r's gradient is j % 5 + r, whose mean is exact in every dtype.
double flat_gradient(int64_t j, double rank) { return static_cast<double>(j % 5) + rank; }

void check_flat_reduction(dist::Unit& unit, const dist::Communicator& world) {
  for (dist::UnitParameter& parameter : unit.parameters()) {
    std::vector<double> values;
    for (int64_t j = 0; j < parameter.place.count; ++j)
      values.push_back(flat_gradient(j, world.rank()));
    parameter.full.set_grad(Tensor(Array::from(values, {parameter.place.count})
                                       .to(parameter.leaf.dtype())
                                       .reshape(parameter.shape)));
  }
  unit.begin_reduce();
  expect(unit.end_reduce(), "nothing is owed");
  for (const dist::UnitParameter& parameter : unit.parameters()) {
    const std::vector<double> got = parameter.leaf.grad().array().to(kFloat64).to_vector<double>();
    const int64_t first = partition(parameter.leaf)->first;
    for (size_t i = 0; i < got.size(); ++i) {
      const double mean = flat_gradient(first + static_cast<int64_t>(i), 0.5 * (world.size() - 1));
      expect(got[i] == mean, parameter.name, ": the mean of element ", i, " is ", got[i]);
    }
  }
}

void check_flat(const dist::Communicator& world, const FlatCase& c) {
  manual_seed(c.seed);
  RandomShapes model(c.seed);
  model.to(c.dtype);
  const nn::StateDict whole = model.state_dict();
  std::vector<Array> values;
  for (const auto& entry : whole) values.push_back(entry.array.clone());
  const dist::Groups groups = groups_of(world, c.replicas);
  dist::Unit unit("flat", dist::unit_parameters(model, {}, true),
                  {.groups = groups, .stage = c.stage},
                  std::make_shared<dist::CommunicatorGroup>(groups.shard));
  check_flat_parts(unit, groups.shard, world.size());
  world.traffic().reset();
  const Array flat = unit.gather_whole();
  const int64_t others = groups.shard.size() - 1;
  expect(world.traffic().bytes() == unit.own().count * others * item_size(c.dtype),
         "every rank sends as many bytes");
  expect_zero_gaps(unit, flat);
  for (const dist::UnitParameter& parameter : unit.parameters()) {
    const Chunk& place = parameter.place;
    const Array& before = values[parameter.id];
    const auto doubles = [](const Array& x) { return x.to(kFloat64).to_vector<double>(); };
    expect(doubles(flat.slice(0, place.begin, place.begin + place.count)) ==
               doubles(before.reshape({before.numel()})),
           "what is gathered is ", parameter.name);
  }
  check_flat_reduction(unit, world);
  optim::AdamW adamw(model.parameters(), {.lr = 0.1});
  optim::clip_grad_norm(model.parameters(), 0.5);
  adamw.step();
  expect_zero_gaps(unit, unit.gather_whole());
}

}  // namespace

TEST_CASE(
    "flat parameters of random shapes are cut in equal parts that are gathered to the parameters") {
  constexpr DType kDTypes[] = {kFloat32, kBFloat16, kFloat64};
  uint64_t seed = 0;
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const int replicas : {1, 2, 3}) {
      if (ranks % replicas != 0) continue;
      for (const dist::Stage stage :
           {dist::Stage::optimizer, dist::Stage::gradients, dist::Stage::parameters}) {
        if (replicas > 1 && stage != dist::Stage::parameters) continue;
        const FlatCase c{++seed, replicas, kDTypes[seed % 3], stage};
        CAPTURE(ranks, replicas, c.seed, c.dtype, static_cast<int>(stage));
        dist::run_ranks(ranks, [&](dist::Communicator& world) { check_flat(world, c); });
      }
    }
  }
}
