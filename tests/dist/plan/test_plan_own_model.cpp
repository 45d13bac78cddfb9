// dist::plan of a model that Hero does not have.
#include <set>

#include "dist/parallel/tagger.h"
#include "support/catch.h"

#include <hero/dist/plan.h>
#include <hero/dist/trainer.h>

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

PlanRequest tagger_request(int ranks) {
  const Tensor one(Array::empty({1, 8}, kInt64, kMeta));
  PlanRequest request;
  request.own.emplace([] { return std::make_unique<Tagger>(4); }, one, one);
  request.ranks = ranks;
  request.global_batch = 8;
  request.cluster.per_host = 4;
  request.max_micro_batch = 2;
  request.dtype = kFloat32;
  return request;
}

// A model whose second block is another.
struct Uneven : Tagger {
  Uneven() : Tagger(1) { blocks.append<Wide>(); }
  struct Wide : Layer {
    nn::Linear& more = add<nn::Linear>("more", 2, 2);
  };
};

}  // namespace

TEST_CASE("plan: the strategies of a model of one's own are those that its form divides") {
  std::set<int> tensor, pipe;
  const PlanRequest request = tagger_request(4);
  for (const Strategy& s : strategies(request)) {
    CAPTURE(s.text());
    CHECK(s.ranks() == 4);
    CHECK(!s.checkpoint);  // Tagger has no set_checkpoint()
    tensor.insert(s.tensor);
    pipe.insert(s.pipe);
    const PlanCost cost = simulate_strategy(request, s);
    CHECK(memory_bound(request, s) > 0);
    CHECK(memory_bound(request, s) <= cost.memory);
    CHECK(seconds_bound(request, s) > 0.0);
    CHECK(seconds_bound(request, s) <= cost.seconds * (1 + 1e-9));
  }
  CHECK(tensor == std::set<int>{1, 2, 4});  // of 4 heads
  CHECK(pipe == std::set<int>{1, 2, 4});    // of 4 blocks
}

TEST_CASE("plan: bounds of a model of one's own count its parameters") {
  PlanRequest request = tagger_request(1);
  const auto model = made_tagger();
  // Float32 parameters, with their gradients and two moments each.
  const Strategy alone{.micro_batch = 1, .micro_batches = 8};
  CHECK(memory_bound(request, alone) == 16 * model->parameter_count());
  // Of a word's products: 3 taps of the stem; q, k, v, o, up and down; tags. Of a block's attention
  // 2 heads' and their values, to all 8 words.
  const double stem = 3.0 * kWidth * kWidth, tags = kWidth * kTags;
  const double block = kWidth * (16 + 8 + 8 + 16 + 48 + 24) + 2 * 8 * kWidth;
  CHECK(model_flops(request) >= 3 * 8 * 8 * 2 * (4 * block + tags));
  CHECK(model_flops(request) <= 3 * 8 * 8 * 2 * (stem + 4 * block + tags));
}

TEST_CASE("plan: the best strategy of a model of one's own is what dist::Trainer runs") {
  const PlanRequest request = tagger_request(4);
  const Plan found = plan(request);
  REQUIRE(!found.best.empty());
  CHECK_THAT(table(found), ContainsSubstring("8 samples per step"));
  Strategy three{.tensor = 2, .pipe = 2, .micro_batch = 2, .micro_batches = 4};
  const Config config = Config::parse(config_text(request, three));
  run_ranks(4, [&](Communicator& world) {
    const auto model = made_tagger();
    Trainer trainer(*model, world, config);
    const auto [x, y] = tagger_batch(0, 0);
    expect(trainer.train_batch(x, y) > 0.0, "a loss");
  });
}

TEST_CASE("plan: a model that cannot be planned says why") {
  const Tensor one(Array::empty({1, 8}, kInt64, kMeta));
  const auto error = [&](const std::function<std::unique_ptr<nn::Module>()>& make) {
    try {
      PlanModel(make, one, one);
    } catch (const Error& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  CHECK_THAT(error([] { return std::make_unique<nn::Linear>(8, 8); }),
             ContainsSubstring("a Linear is no nn::PipelineModel"));
  CHECK_THAT(error([] { return std::make_unique<Uneven>(); }),
             ContainsSubstring("block 1 of a Uneven is not like block 0"));
}
