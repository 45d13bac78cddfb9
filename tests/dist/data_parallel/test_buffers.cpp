// Buffers of modules in training: evaluation behind a step is the same on all ranks, for one
// message a step and dtype.
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

namespace {

std::unique_ptr<nn::Module> norms(int count) {
  auto model = std::make_unique<nn::Sequential>();
  for (int i = 0; i < count; ++i) model->append<nn::BatchNorm1d>(4);
  return model;
}

dist::DataParallel put(ShardingStrategy strategy, nn::Module& model,
                       const dist::Communicator& world) {
  if (strategy == ShardingStrategy::ddp) return dist::DDP(model, world);
  if (strategy == ShardingStrategy::zero1) return dist::ZeRO(model, world, {.stage = 1});
  if (strategy == ShardingStrategy::zero2) return dist::ZeRO(model, world, {.stage = 2});
  if (strategy == ShardingStrategy::zero3) return dist::ZeRO(model, world, {.stage = 3});
  if (strategy == ShardingStrategy::hybrid) {
    return dist::fully_shard(model, dist::Mesh(world, {{"replicate", 2}, {"shard", 2}}));
  }
  if (strategy == ShardingStrategy::fsdp_kept) {  // here: the idiom
    for (const auto& [path, module] : model.named_modules()) {
      if (!path.empty() && path.find('.') == std::string::npos) dist::fully_shard(*module, world);
    }
  }
  return dist::fully_shard(model, world);
}

Tensor input(int step, int rank) {
  return Tensor(noise({6, 4}, kFloat32, static_cast<uint64_t>(step * 8 + rank + 1)));
}

std::vector<float> evaluated(nn::Module& model) {
  model.eval();
  const NoGrad none;
  const std::vector<float> out = model(ones({1, 4})).array().to_vector<float>();
  model.train();
  return out;
}

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

int64_t broadcasts(const dist::Communicator& world) {
  int64_t calls = 0;
  for (const auto& row : world.traffic().rows()) {
    if (row.op == dist::Collective::broadcast && row.unit == "buffers") calls += row.calls;
  }
  return calls;
}

}  // namespace

TEST_CASE("evaluation behind a step, a forward or join() is the same on all ranks") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    CHECK(errors_of(4, [&](dist::Communicator& world) {
            const auto model = norms(2);
            const auto parallel = put(strategy, *model, world);
            const auto expect_same = [&](const char* when) {
              std::vector<float> mine = evaluated(*model);
              const Array all = Array::from(mine, {4});
              world.broadcast(all, 0);
              expect(all.to_vector<float>() == mine, when);
            };
            sum((*model)(input(0, world.rank()))).backward();
            expect_same("behind a step");
            {
              const NoGrad none;
              (*model)(input(1, world.rank()));
            }
            expect_same("behind a forward in training that nobody records");
            (*model)(input(2, world.rank()));
            expect_same("behind a forward without backward");
            const float mean =
                model->named_buffers().front().second.array().to_vector<float>().front();
            expect(mean != 0.0f, "the statistics are those of training");
            if (strategy != ShardingStrategy::ddp && strategy != ShardingStrategy::zero1 &&
                strategy != ShardingStrategy::zero2)
              return;
            parallel.join(
                [&] {
                  for (int step = 0; step <= world.rank(); ++step) {
                    sum((*model)(input(step, world.rank()))).backward();
                  }
                },
                [] {});
            expect_same("behind join()");
          }) == std::vector<std::string>(4));
  }
}

TEST_CASE("a rank may evaluate alone") {
  for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::zero1}) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      const auto model = norms(1);
      const auto parallel = put(strategy, *model, world);
      if (strategy == ShardingStrategy::ddp && world.rank() == 1) evaluated(*model);
      sum((*model)(input(0, world.rank()))).backward();
      if (world.rank() == 1) evaluated(*model);
      world.barrier();
    });
  }
}

TEST_CASE("the buffers of a model travel in one message for each dtype") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const auto model = norms(53);
      put(strategy, *model, world);
      sum((*model)(input(0, world.rank()))).backward();  // before it and behind it, at most
      const int64_t before = broadcasts(world);
      expect(before == 2, before);
      sum((*model)(input(1, world.rank()))).backward();
      expect(broadcasts(world) - before == 2, "float32 and int64: ", broadcasts(world) - before);
      model->eval();  // which changes none
      sum((*model)(input(2, world.rank()))).backward();
      expect(broadcasts(world) - before == 2, "nothing in evaluation");
    });
  }
}

TEST_CASE("buffers of ignored modules stay each rank's own") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = norms(2);
    const dist::DDP ddp(*model, world, {.ignored_modules = {"1"}});
    sum((*model)(input(0, world.rank()))).backward();
    for (const auto& [name, buffer] : model->named_buffers()) {
      if (buffer.dtype() != kFloat32) continue;
      const Array other = buffer.array().clone();
      world.broadcast(other, 0);
      expect(same(other, buffer.array()) == (name.starts_with("0") || world.rank() == 0), name);
    }
  });
}

TEST_CASE("adapters beside frozen weights are spread evenly over the ranks") {
  constexpr int kRanks = 8;
  std::vector<int64_t> shares(kRanks);
  dist::run_ranks(kRanks, [&](dist::Communicator& world) {
    manual_seed(3);
    nn::GPT model({.vocab_size = 16, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 32});
    model.requires_grad_(false);
    nn::add_lora(model, {.rank = 4, .targets = {"c_attn", "c_fc"}});
    const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    model.loss(zeros({1, 8}, {.dtype = kInt64}), zeros({1, 8}, {.dtype = kInt64})).backward();
    int64_t mine = 0;
    for (const Tensor& p : model.parameters()) mine += p.grad().defined() ? p.grad().numel() : 0;
    shares[static_cast<size_t>(world.rank())] = mine;
    sgd.step();
  });
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  CHECK(*least > 0);
  CHECK(*most <= 2 * *least);
}

namespace {

/// Writes its buffers as programs do: in place, by another tensor, and where the data say so.
struct Statistics : nn::Module {
  nn::Linear& fc = add<nn::Linear>("fc", 4, 4);
  Tensor& replaced = buffer("replaced", {4}, nn::init::zeros());
  Tensor& counted = buffer("counted", {2}, nn::init::zeros(), kInt64);
  int times = 1;
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc(x);
    if (training()) {
      const NoGrad none;
      for (int i = 0; i < times; ++i) replaced = replaced * 0.5 + mean(y, {0}).detach();
      if (x.array().to_vector<float>().front() > 0.0f) counted.add_(ones({2}, {.dtype = kInt64}));
    }
    return y;
  }
};

}  // namespace

TEST_CASE("buffers that forward replaces, or that some ranks alone write, are rank 0's") {
  for (const ShardingStrategy strategy : kAll) {
    for (const int times : {1, 2, 4}) {
      CAPTURE(name(strategy), times);
      CHECK(errors_of(4, [&](dist::Communicator& world) {
              manual_seed(4);
              Statistics model;
              model.times = times;
              const auto parallel = put(strategy, model, world);
              for (int step = 0; step < 3; ++step) {
                sum(model(input(step, world.rank()))).backward();
                for (const auto& [name, buffer] : model.named_buffers()) {
                  const Array mine = buffer.array().clone().contiguous(), other = mine.clone();
                  world.broadcast(other, 0);
                  expect(same(mine, other), name, " in step ", step);
                }
              }
            }) == std::vector<std::string>(4));
    }
  }
}

TEST_CASE(
    "layers with computed weights take two forwards before two backwards under every strategy") {
  for (const ShardingStrategy strategy : kAll) {
    CAPTURE(name(strategy));
    CHECK(errors_of(4, [&](dist::Communicator& world) {
            manual_seed(4);
            nn::Sequential model{nn::spectral_norm(nn::Linear(4, 4)),
                                 nn::spectral_norm(nn::Linear(4, 4))};
            const auto parallel = put(strategy, model, world);
            optim::SGD sgd(model.parameters(), {.lr = 0.1});
            for (int step = 0; step < 2; ++step) {
              const Tensor first = sum(square(model(input(step, world.rank()))));
              const Tensor second = sum(square(model(input(step + 5, world.rank()))));
              first.backward();
              second.backward();
              sgd.step();
              sgd.zero_grad();
            }
            int64_t elements = 0;  // of u and v, not of weights
            for (const auto& row : world.traffic().rows()) {
              if (row.unit == "buffers" && world.rank() == 0) elements += row.bytes / 4;
            }
            expect(elements % 16 == 0 && elements / 16 <= 4 * 3, elements);
          }) == std::vector<std::string>(4));
  }
}
