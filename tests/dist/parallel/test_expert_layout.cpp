// Which experts ranks keep: checkpoints, first values, and what cannot be.
#include <string>
#include <vector>

#include "dist/parallel/experts.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;
using ExpertPaths = std::vector<std::string>;

TEST_CASE("checkpoints of experts load on any number of ranks", "[expert]") {
  const TempDir dir;
  // each rank's experts and the optimizer's states of them, from `from` on (0: first values)
  const auto run = [&](int data, int expert, const std::string& from, const std::string& to,
                       Whole& state) {
    const int ranks = data * expert;
    const auto body = [&](const dist::Communicator& world) {
      const auto model = make_mixture(kBothLosses, kFloat32);
      ExpertPaths experts;
      if (world.defined()) {
        const dist::Mesh mesh(world, {{"data", data}, {"expert", expert}});
        experts = dist::expert_parallel(*model, mesh["expert"], {.loads_over = world});
        if (data > 1) dist::fully_shard(model->get_submodule(experts[0]), mesh["data"]);
        dist::fully_shard(*model, world, {.ignored_modules = data > 1 ? ExpertPaths() : experts});
      }
      const auto adamw = make_method(Method::adamw, model->parameters());
      dist::Checkpointer checkpoint(dir / (from.empty() ? to : from), world);
      checkpoint.track("model", *model);
      checkpoint.track("optimizer", *adamw);
      if (!from.empty()) {
        const NoGrad no_grad;
        for (const Tensor& p : model->parameters()) p.fill_(0.125);
        expect(checkpoint.resume() == 1, "step 1");
      } else {
        const Tensor x = all_tokens(0, kFloat32);
        mixture_loss(*model, world.defined() ? own_tokens(x, world.rank(), ranks) : x).backward();
        adamw->step();
        checkpoint.save(1);
      }
      add_state(state, *model, *adamw);
      if (from.empty() || to.empty()) return;
      dist::Checkpointer next(dir / to, world);
      next.track("model", *model);
      next.track("optimizer", *adamw);
      next.save(1);
    };
    if (ranks == 1) return body({});
    dist::run_ranks(ranks, [&](dist::Communicator& world) { body(world); });
  };
  Whole saved, single, two, eight, grid, back;
  run(1, 4, "", "four", saved);
  run(1, 1, "four", "one", single);
  run(1, 2, "one", "", two);
  run(1, 8, "one", "", eight);
  run(2, 2, "four", "grid", grid);
  run(1, 1, "grid", "", back);
  CHECK(saved.size() > 10);
  CHECK(saved.difference(single) == "");
  CHECK(saved.difference(two) == "");
  CHECK(saved.difference(eight) == "");
  CHECK(saved.difference(grid) == "");
  CHECK(saved.difference(back) == "");
}

TEST_CASE("experts made on meta get the slices of the whole's first values", "[expert]") {
  manual_seed(5);
  nn::MoE whole(kMoEWidth, kMoEHidden, kExperts);
  dist::run_ranks(4, [&](dist::Communicator& world) {
    manual_seed(5);
    std::unique_ptr<nn::MoE> moe;
    {
      const nn::DeviceScope meta(kMeta);
      moe = std::make_unique<nn::MoE>(kMoEWidth, kMoEHidden, kExperts);
    }
    expect(dist::expert_parallel(*moe, world) == ExpertPaths{"experts"}, "its path");
    moe->materialize();
    for (const auto& [name, leaf] : moe->named_parameters()) {
      expect(same(leaf.array(), slice_of(whole.get_parameter(name).array(), leaf)), name);
      expect(whole_shape(leaf) == whole.get_parameter(name).shape(), name);
    }
    expect((*moe)(all_tokens(0, kFloat32)).shape() == Shape{kTokens, kMoEWidth}, "computes");
  });
}

TEST_CASE("experts that cannot be over ranks are named on every rank", "[expert]") {
  const auto check_all = [](int ranks, const dist::RankProgram& program, const char* text) {
    for (const std::string& error : errors_of(ranks, program)) {
      CHECK_THAT(error, ContainsSubstring(text));
    }
  };
  check_all(
      3, [](auto& world) { dist::expert_parallel(*make_mixture({}, kFloat32), world); },
      "expert_parallel: moe has 8 experts, which do not divide into 3 ranks");
  check_all(
      2,
      [](auto& world) {
        const auto model = make_mixture({.top_k = world.rank() + 2}, kFloat32);
        dist::expert_parallel(*model, world);
      },
      "expert_parallel: ranks have different layers at moe");
  check_all(
      2,
      [](auto& world) {
        nn::Linear linear(2, 2);
        dist::expert_parallel(linear, world);
      },
      "expert_parallel: Linear has no MoE layer");
  check_all(
      2,
      [](auto& world) {
        const auto model = make_mixture({}, kFloat32);
        dist::expert_parallel(*model, world);
        dist::expert_parallel(*model, world);
      },
      "the experts of moe are cut already");
  check_all(
      2,
      [](auto& world) {
        const auto model = make_mixture({}, kFloat32);
        dist::expert_parallel(*model, world);
        dist::DDP(*model, world);
      },
      "ranks have different modules: rank 0 has parameter moe.experts.w1");
  check_all(
      2,
      [](auto& world) {
        dist::DDP(*make_mixture({}, kFloat32), world, {.ignored_modules = {"moe.expert"}});
      },
      "ddp: there is no module 'moe.expert' to ignore");
}
