// The code of docs/guides/own_model.md, run; its model is in tests/dist/parallel/tagger.h.
#include "dist/parallel/tagger.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/dist/plan.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// [snippet: check]
std::vector<dist::ParallelFormCheck> check_tagger() {
  const auto make = [] { return std::make_unique<Tagger>(2); };
  return dist::check_parallel_form(make, tagger_batch(0, 0).first);  // words [8, 8]
}
// [end]

double train_tagger(dist::Communicator& world, int pipes, int data, int tensor) {
  // [snippet: train]
  const dist::Mesh mesh(world, {{"pipe", pipes}, {"data", data}, {"tensor", tensor}});
  manual_seed(1);
  std::optional<nn::DeviceScope> meta(kMeta);
  Tagger model(4);  // shapes alone, on every rank
  meta.reset();
  dist::tensor_parallel(model, mesh["tensor"], {.slices = 4, .sequence = true});
  dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = 4});
  dist::fully_shard(model, mesh["data"], {.unit = dist::each<Layer>()});
  // [end]
  optim::AdamW adamw(pipe.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 5; ++step) {
    const auto [words, tags] = tagger_batch(step, mesh.coordinate("data"));
    last = pipe.step(words, tags);
    optim::clip_grad_norm(pipe.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
  }
  return last;
}

dist::Plan plan_tagger(const dist::Cluster& cluster) {
  const Tensor words = zeros({1, 8}, {.dtype = kInt64}), tags = words;  // one sample, its target
  dist::PlanRequest request;
  request.own.emplace([] { return std::make_unique<Tagger>(4); }, words, tags);
  request.cluster = cluster;
  request.ranks = 8;
  request.global_batch = 64;
  request.best = 3;
  return dist::plan(request);
}

}  // namespace

TEST_CASE("the check of the page of one's own model runs what the form says", "[axes]") {
  const auto tried = check_tagger();
  REQUIRE(tried.size() == 3);
  CHECK(tried[0].refused == "");
  CHECK(tried[1].refused == "");
  CHECK_THAT(tried[2].refused, ContainsSubstring("'stem.conv.weight' is of a Conv1d"));
}

TEST_CASE("the program of the page of one's own model gives one loss on any mesh", "[axes]") {
  const auto loss_on = [](int pipes, int data, int tensor) {
    double loss = 0.0;
    dist::run_ranks(pipes * data * tensor, [&](dist::Communicator& world) {
      const double mine = train_tagger(world, pipes, data, tensor);
      if (world.rank() == 0) loss = mine;
    });
    return loss;
  };
  const double expected = loss_on(1, 1, 1);
  CHECK(expected > 0.0);
  CHECK(loss_on(1, 1, 4) == expected);
  CHECK(loss_on(2, 1, 2) == expected);
  CHECK(loss_on(3, 1, 1) == expected);
  CHECK(loss_on(2, 2, 2) == loss_on(1, 2, 1));
}

TEST_CASE("the plan of the page of one's own model has strategies on several axes", "[axes]") {
  const dist::Plan plan = plan_tagger({});
  REQUIRE(plan.best.size() == 3);
  CHECK(plan.best[0].cost->seconds <= plan.best[1].cost->seconds);
  CHECK_THAT(table(plan), ContainsSubstring("64 samples per step"));
}
