// Steps as programs make them: micro-batches with and without averaging, forwards that are dropped,
// kept or fail, evaluation in between, recomputation, parts that a step leaves out or freezes. All
// strategies end with the same bits.
#include <random>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/graph/checkpoint.h>

using namespace hero;
using namespace hero::test;

namespace {

struct Part : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 8, 12);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 12, 8);
  Tensor forward(const Tensor& x) override { return x + fc2(tanh(fc1(x))); }
};

struct Parts : nn::Module {
  static constexpr int kParts = 4;
  nn::Linear& in = add<nn::Linear>("in", 6, 8);
  std::vector<Part*> parts;
  nn::Linear& out = add<nn::Linear>("out", 8, 3);
  unsigned uses = 15;  // a bit for each part
  bool recomputes = false, fails = false;

  Parts() {
    for (int i = 0; i < kParts; ++i) parts.push_back(&add<Part>("part" + std::to_string(i)));
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = in(x);
    for (size_t i = 0; i < kParts; ++i) {
      if ((uses >> i & 1u) == 0) continue;
      Part& part = *parts[i];
      h = recomputes ? checkpoint([&part](const Tensor& t) { return part(t); }, h) : part(h);
    }
    check(!fails, "the forward fails as the pattern says");
    return out(h);
  }
};

enum class ShardingStrategy {
  ddp,
  zero1,
  zero2,
  zero3,
  unit,
  idiom,
  idiom_kept,
  idiom_deep,
  some_parts,
  hybrid,
  hybrid_idiom
};
constexpr const char* kNames[] = {"ddp",        "zero1",  "zero2",       "zero3",
                                  "unit",       "idiom",  "idiom_kept",  "idiom_deep",
                                  "some_parts", "hybrid", "hybrid_idiom"};

dist::DataParallel put(ShardingStrategy strategy, Parts& model, const dist::Communicator& world) {
  const auto each_part = [&](const auto& where, const dist::FSDPOptions& options) {
    for (Part* part : model.parts) dist::fully_shard(*part, where, options);
    return dist::fully_shard(model, where, options);
  };
  const auto mesh = [&] { return dist::Mesh(world, {{"replicate", 2}, {"shard", 2}}); };
  switch (strategy) {
    case ShardingStrategy::ddp:
      return dist::DDP(
          model, world,
          {.bucket_bytes = 500, .first_bucket_bytes = 100, .find_unused_parameters = true});
    case ShardingStrategy::zero1:
    case ShardingStrategy::zero2:
      return dist::ZeRO(model, world,
                        {.stage = strategy == ShardingStrategy::zero1 ? 1 : 2,
                         .bucket_bytes = 500,
                         .find_unused_parameters = true});
    case ShardingStrategy::zero3:
      return dist::ZeRO(model, world, {.stage = 3});
    case ShardingStrategy::unit:
      return dist::fully_shard(model, world, {.unit = dist::each<Part>()});
    case ShardingStrategy::idiom:
      return each_part(world, {});
    case ShardingStrategy::idiom_kept:
      return each_part(world, {.reshard_after_forward = false});
    case ShardingStrategy::idiom_deep:
      return each_part(world, {.prefetch = 3});
    case ShardingStrategy::some_parts:
      dist::fully_shard(model.parts[2]->fc1, world);
      dist::fully_shard(*model.parts[2], mesh());
      return dist::fully_shard(model, world, {.unit = dist::each_of({"part0", "in"})});
    case ShardingStrategy::hybrid:
      return dist::fully_shard(model, mesh(), {.unit = dist::each<Part>()});
    case ShardingStrategy::hybrid_idiom:
      return each_part(mesh(), {});
  }
  fail("no strategy");
}

Tensor input(uint64_t seed, int rank) {
  return Tensor(noise({3, 6}, kFloat32, seed * 64 + static_cast<uint64_t>(rank) + 1));
}

// One step; every rank draws the same numbers.
void step(std::mt19937_64& draw, uint64_t seed, Parts& model, const dist::DataParallel& parallel,
          optim::Optimizer& adamw, int rank, bool shards) {
  const auto one_in = [&](uint64_t n) { return draw() % n == 0; };
  const auto forward = [&](uint64_t salt) {
    return sum(square(model(input(seed * 16 + salt, rank))));
  };
  // frozen from the last step on, and trained again
  for (Part* part : model.parts) part->requires_grad_(!one_in(6));
  Tensor kept;
  const auto between = [&] {
    model.uses = static_cast<unsigned>(draw() % 16);
    if (one_in(4)) forward(9);          // recorded, and dropped
    if (one_in(6)) kept = forward(10);  // until the end of the step
    if (one_in(4)) {
      model.eval();
      const NoGrad evaluation;
      forward(11);
      model.train();
    }
    if (one_in(5)) {
      model.fails = true;
      expect(!error_of([&] { forward(12); }).empty(), "fails");
      model.fails = false;
    }
  };
  const uint64_t micro_batches = 1 + draw() % 3;
  const bool adds_up = one_in(2), together = one_in(3);
  std::vector<Tensor> losses;
  const auto run = [&](uint64_t micro) {
    between();
    model.uses = static_cast<unsigned>(draw() % 16);
    model.recomputes = one_in(3);
    losses.push_back(forward(micro));
    model.recomputes = false;
  };
  if (together) {
    for (uint64_t micro = 0; micro < micro_batches; ++micro) run(micro);
  }
  for (uint64_t micro = 0; micro < micro_batches; ++micro) {
    std::optional<dist::NoSync> local;
    if (adds_up && micro + 1 < micro_batches) local.emplace(parallel.no_sync());
    if (!together) run(micro);
    losses[micro].backward();
    losses[micro] = {};
  }
  between();
  for (const Tensor& p : model.parameters()) {
    if (shards && !kept.defined()) expect(partition(p) != nullptr, "a shard between two steps");
  }
  if (one_in(2)) optim::clip_grad_norm(model.parameters(), 0.5);
  adamw.step();
  adamw.zero_grad();
}

void run(uint64_t seed, ShardingStrategy strategy, Whole& whole) {
  dist::run_ranks(4, [&](dist::Communicator& world) {
    manual_seed(seed);
    Parts model;
    const std::vector<Tensor> before = model.parameters();
    const dist::DataParallel parallel = put(strategy, model, world);
    optim::AdamW adamw(before, {.lr = 0.02});
    std::mt19937_64 draw(seed);
    for (uint64_t i = 0; i < 4; ++i) {
      step(draw, seed * 8 + i, model, parallel, adamw, world.rank(),
           strategy != ShardingStrategy::ddp);
    }
    add_state(whole, model, adamw);
  });
}

void compare(uint64_t first, uint64_t end) {
  for (uint64_t seed = first; seed < end; ++seed) {
    Whole expected;
    run(seed, ShardingStrategy::unit, expected);
    REQUIRE(expected.size() > 20);
    for (int i = 0; i <= static_cast<int>(ShardingStrategy::hybrid_idiom); ++i) {
      CAPTURE(seed, kNames[i]);
      Whole got;
      run(seed, static_cast<ShardingStrategy>(i), got);
      CHECK(expected.difference(got) == "");
    }
  }
}

}  // namespace

TEST_CASE("steps of any pattern end with the same bits under every strategy", "[threads]") {
  compare(1, 7);
}

TEST_CASE("two hundred patterns of steps end with the same bits under every strategy",
          "[.][stress]") {
  compare(100, 300);
}
