// The code of docs/guides/experts.md, run.
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;

namespace {

// [snippet: model]
struct Classifier : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 12, 16);
  nn::MoE& moe = add<nn::MoE>("moe", 16, 32, 8, {.top_k = 2});  // eight experts, two a token
  nn::Linear& out = add<nn::Linear>("out", 16, 4);
  Tensor forward(const Tensor& x) override {
    const Tensor h = in(x);
    return out(h + moe(h));
  }
};
// [end]

struct ExpertSample {
  Tensor x, labels;
};

ExpertSample expert_sample(int rank) {
  const Tensor x(noise({16, 12}, kFloat32, static_cast<uint64_t>(rank) + 1));
  return {x, argmax(narrow(x, 1, 0, 4), 1)};
}

double train_experts(dist::Communicator& world) {
  // [snippet: parallel]
  Classifier model;
  const auto experts = dist::expert_parallel(model, world);
  dist::fully_shard(model, world, {.ignored_modules = experts});  // or DDP, or ZeRO
  // [end]
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 20; ++step) {
    const auto [x, labels] = expert_sample(world.rank());
    const Tensor loss = cross_entropy(model(x), labels);
    (loss + nn::moe_aux_loss(model)).backward();
    optim::clip_grad_norm(model.parameters(), 1.0);  // every expert counts once
    adamw.step();
    adamw.zero_grad();
    last = loss.item();
  }
  return last;
}

}  // namespace

TEST_CASE("the code of the page of experts trains", "[expert]") {
  manual_seed(1);
  Classifier model;
  const auto [x, labels] = expert_sample(0);
  // [snippet: losses]
  const Tensor loss = cross_entropy(model(x), labels);
  (loss + nn::moe_aux_loss(model)).backward();            // of the forward before
  const nn::MoEStatistics seen = model.moe.statistics();  // tokens of each expert, and dropped
  // [end]
  CHECK(seen.tokens_per_expert.size() == 8);
  CHECK(model.moe.router.weight.grad().defined());
  for (const int ranks : {1, 4}) {
    dist::run_ranks(ranks, [](dist::Communicator& world) {
      manual_seed(1);
      expect(train_experts(world) < 1.0, "below the first loss, log 4");
    });
  }
  dist::run_ranks(4, [](dist::Communicator& world) {
    Classifier planned;
    nn::Module& whole = planned;
    // [snippet: mesh]
    const dist::Mesh mesh(world, {{"data", 2}, {"expert", 2}});
    const auto experts = dist::expert_parallel(whole, mesh["expert"], {.loads_over = world});
    for (const std::string& path : experts) {
      dist::fully_shard(whole.get_submodule(path), mesh["data"]);
    }
    dist::fully_shard(whole, world);  // the rest
    // [end]
    cross_entropy(whole(expert_sample(world.rank()).x), expert_sample(world.rank()).labels)
        .backward();
    expect(planned.moe.experts.parameter_count() == 3 * 8 * 32 * 16 / 4, "a fourth of the experts");
    expect(planned.moe.experts.w2.grad().defined(), "with gradients");
  });
}
