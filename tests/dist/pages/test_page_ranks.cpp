// The code of docs/guides/ranks.md, run.
#include <algorithm>
#include <cstdio>
#include <map>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;

namespace {

std::pair<Tensor, Tensor> batch(const nn::GPTConfig& config, int rank) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2 * config.block_size; ++i) ids.push_back((i * 7 + rank) % 31);
  const Tensor tokens(Array::from(ids, {2, config.block_size}));
  return {tokens, tokens.reshape({-1})};
}

const nn::GPTConfig kConfig = {
    .vocab_size = 31, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16};

// [snippet: train]
double train(dist::Communicator& world) {
  nn::GPT model(kConfig);
  dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});  // the line of the strategy
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 10; ++step) {
    const auto [tokens, targets] = batch(kConfig, world.rank());
    const Tensor loss = cross_entropy(model(tokens).reshape({-1, kConfig.vocab_size}), targets);
    loss.backward();  // each unit's gradients are averaged over the ranks
    optim::clip_grad_norm(model.parameters(), 1.0);  // of the whole model, on every rank
    adamw.step();                                    // of this rank's shards
    adamw.zero_grad();
    last = loss.item();
  }
  return last;
}
// [end]

// [snippet: hooked]
struct Matcher : nn::Module {
  nn::Linear& left = add<nn::Linear>("left", 8, 4);
  nn::Linear& right = add<nn::Linear>("right", 8, 4);

  Tensor operator()(const Tensor& a, const Tensor& b) {  // two inputs: an operator() of its own
    return run_hooked({a, b}, [this](const nn::Tensors& in) -> nn::Tensors {
      return {sum(left(in[0]) * right(in[1]), {-1})};
    })[0];
  }
};
// [end]

// [snippet: groups]
optim::AdamW decay_matrices(const nn::Module& model) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& p : model.parameters()) {
    (whole_shape(p).size() >= 2 ? matrices : vectors).push_back(p);
  }
  return optim::AdamW({{matrices, {.weight_decay = 0.1}}, {vectors, {.weight_decay = 0.0}}});
}
// [end]

}  // namespace

TEST_CASE("the module of two inputs on the page of ranks is averaged under every strategy") {
  for (const int stage : {0, 1, 2, 3}) {
    dist::run_ranks(2, [stage](dist::Communicator& world) {
      manual_seed(3);
      Matcher model;
      stage == 0 ? (void)dist::DDP(model, world) : (void)dist::ZeRO(model, world, {.stage = stage});
      optim::AdamW adamw = decay_matrices(model);
      expect(adamw.parameters().size() == 4, "two matrices and two vectors");
      const Tensor x = full({3, 8}, world.rank() + 0.5);
      sum(model(x, x)).backward();
      adamw.step();
      const Array mine = model.left.weight.array().clone();
      const Array first = mine.clone();
      if (stage == 0) world.broadcast(first, 0);
      expect(hash(first) == hash(mine), "the same on both ranks");
    });
  }
}

TEST_CASE("the training program of the page of ranks learns on any number of ranks") {
  for (const int ranks : {1, 2, 3}) {
    dist::run_ranks(ranks, [](dist::Communicator& world) {
      manual_seed(3);
      expect(train(world) < 2.0, "the loss fell from 3.4");
    });
  }
}

TEST_CASE("the step of the page of ranks has the same bits on 1, 2, 4 and 8 ranks") {
  const auto bits = [](int ranks) {
    std::string hash;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      manual_seed(3);
      nn::GPT model(kConfig);
      const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
      optim::AdamW adamw(model.parameters());
      const auto loss_of = [&](int micro_batch) {
        const auto [tokens, targets] = batch(kConfig, micro_batch);
        return cross_entropy(model(tokens).reshape({-1, kConfig.vocab_size}), targets);
      };
      // [snippet: invariant]
      optim::Accumulator gradients(model.parameters());
      for (int i = world.rank(); i < 8; i += world.size()) {
        loss_of(i).backward();  // the mean over the ranks
        gradients.add();
      }
      gradients.mean();
      adamw.step();
      // [end]
      const auto whole = fsdp.summon_full_parameters();
      if (world.rank() != 0) return;
      for (const auto& [name, p] : model.named_parameters())
        hash += std::to_string(test::hash(p.array())) + " ";
    });
    return hash;
  };
  const std::string one = bits(1);
  for (const int ranks : {2, 4, 8}) CHECK(bits(ranks) == one);
}

TEST_CASE("the dropout of the page of ranks has the rows of one process") {
  Tensor whole;
  for (const int ranks : {1, 2, 4}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      manual_seed(3);
      const Tensor batch = ones({8, 4});
      nn::Sequential model{nn::Linear(4, 32), nn::Dropout(0.1)};
      const dist::DDP ddp(model, world);
      const int64_t each = batch.size(0) / world.size(), first = world.rank() * each;
      const Tensor mine = model(batch.slice(0, first, first + each));  // rows of one process's
      if (ranks == 1) whole = mine.detach();
      expect(equal(mine, whole.slice(0, first, first + each)), "the rows of one process");
    });
  }
  CHECK_FALSE(equal(whole[0], whole[4]));
}

TEST_CASE("what the page of ranks shows of modules within modules") {
  dist::run_ranks(4, [](dist::Communicator& world) {
    manual_seed(3);
    nn::GPT model(kConfig);
    const auto loss = [&] {
      const auto [tokens, targets] = batch(kConfig, world.rank());
      return cross_entropy(model(tokens).reshape({-1, kConfig.vocab_size}), targets);
    };
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    for (const auto& [path, module] : model.named_modules()) {
      if (auto* feed_forward = dynamic_cast<nn::FeedForward*>(module)) {
        dist::fully_shard(*feed_forward, mesh, {.reshard_after_forward = false});
      }
    }
    const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    std::map<std::string, optim::AdamW> steps;
    const auto named = model.named_parameters();
    for (const dist::UnitInfo& unit : fsdp.units()) {
      std::vector<Tensor> own;
      for (const auto& [name, p] : named) {
        if (std::count(unit.parameters.begin(), unit.parameters.end(), name) > 0) own.push_back(p);
      }
      steps.try_emplace(unit.name, own);
    }
    fsdp.on_event([&](const dist::Event& event) {
      if (event.kind != dist::Event::Kind::reduced) return;
      steps.at(event.unit).step();
      steps.at(event.unit).zero_grad();
    });
    expect(steps.size() == 5, "a root, two blocks, two feed-forward parts");
    loss().backward();
    for (const Tensor& p : model.parameters()) expect(!p.grad().defined(), "stepped");
  });
}

TEST_CASE("what the page of ranks shows of accumulation, meta, hybrids and whole parameters") {
  dist::run_ranks(4, [](dist::Communicator& world) {
    manual_seed(3);
    // [snippet: meta]
    const auto on_meta = [] {
      const nn::DeviceScope meta(kMeta);
      return nn::GPT(kConfig);  // shapes only
    };
    nn::GPT model = on_meta();
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    const auto fsdp = dist::fully_shard(model, mesh, {.unit = dist::each<nn::Block>()});
    // [end]
    const auto loss = [&] {
      const auto [tokens, targets] = batch(kConfig, world.rank());
      return cross_entropy(model(tokens).reshape({-1, kConfig.vocab_size}), targets);
    };
    {
      const auto local = fsdp.no_sync();  // whole gradients, nothing sent
      loss().backward();
    }
    loss().backward();  // averages the sum of both
    {
      const auto whole = fsdp.summon_full_parameters();
      world.out() << to_string(model.lm_head.weight.shape()) << "\n";  // [31, 16] on all ranks
    }
    const nn::StateDict state = fsdp.full_state_dict();
    expect(state.size() == model.slots().size(), "all names");
    world.out() << current_ledger().table() << world.traffic().table();
  });
}
