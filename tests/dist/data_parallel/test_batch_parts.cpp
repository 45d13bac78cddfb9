// Dropout on several ranks: each computes with its part of a batch, and gets those rows of the mask
// that one process with the whole batch would get.
#include <mutex>
#include <utility>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/data/data.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

// Small whole numbers and p = 1/2, so that sums are exact in any order: what ranks that share a
// batch compute differs from one process in nothing but rounding.
void set_whole_numbers(nn::Module& model) {
  const NoGrad no_grad;
  double next = 0;
  for (const Tensor& p : model.parameters()) {
    p.copy_(remainder(arange(p.numel()) + (next += 3), 5).reshape(p.shape()) - 2);
  }
}

struct Dropping : nn::Module {
  nn::Linear& a = add<nn::Linear>("a", 3, 5);
  nn::Dropout& drop = add<nn::Dropout>("drop");
  nn::Linear& b = add<nn::Linear>("b", 5, 5);
  bool again = false;  // run again in backward
  Dropping() { set_whole_numbers(*this); }
  Tensor forward(const Tensor& x) override {
    const auto middle = [this](const Tensor& h) {
      return b(drop(h)) + dropout1d(h.unsqueeze(2)).squeeze(2);
    };
    const Tensor h = a(x);
    return dropout(again ? checkpoint(middle, h) : middle(h));
  }
};

Tensor whole_batch(int64_t examples) {
  return (remainder(arange(examples * 3), 7) - 3).reshape({examples, 3}).to(kFloat32);
}

// The rank's part of the whole batch.
Tensor part_of(const Tensor& batch, int rank, int ranks) {
  const int64_t each = batch.size(0) / ranks;
  return batch.slice(0, rank * each, (rank + 1) * each);
}

// Outputs and gradients of two steps of a batch of eight, on ranks that share it; `ranks` 0: of one
// process, without a strategy.
struct Steps {
  Whole outputs, gradients;
};

void run(int ranks, ShardingStrategy strategy, bool again, Steps& steps) {
  const auto program = [&](const Communicator* world) {
    manual_seed(4);
    Dropping model;
    model.again = again;
    if (world != nullptr) climb(strategy, Subject::mlp, model, *world);
    const int rank = world != nullptr ? world->rank() : 0;
    optim::SGD sgd(model.parameters(), {.lr = 1.0});
    const Tensor x = part_of(whole_batch(8), rank, std::max(ranks, 1));
    for (int step = 0; step < 2; ++step) {
      const Tensor y = model(x);
      steps.outputs.add("step " + std::to_string(step), 8 * 5, rank * y.numel(), y.array());
      mean(y.sum({1})).backward();
      expect(batch_part() == BatchPart{}, "the whole batch behind forward and backward");
    }
    sgd.step();  // of two gradients
    add_state(steps.gradients, model, sgd);
  };
  if (ranks == 0) return program(nullptr);
  run_ranks(ranks, [&](Communicator& world) { program(&world); });
}

}  // namespace

TEST_CASE(
    "ranks that share a batch drop what one process drops, under every strategy, run again too") {
  for (const bool again : {false, true}) {
    Steps expected;
    run(0, ShardingStrategy::single, again, expected);
    for (const int ranks : {1, 2, 4}) {
      for (const ShardingStrategy strategy : kAll) {
        if (strategy == ShardingStrategy::hybrid && ranks < 4) continue;
        CAPTURE(name(strategy), ranks, again);
        Steps got;
        run(ranks, strategy, again, got);
        CHECK(expected.outputs.difference(got.outputs) == "");
        CHECK(expected.gradients.difference(got.gradients) == "");
      }
    }
  }
}

namespace {

// Two batches of eight examples with noise of whole numbers, of which ranks take their turns.
void run_noisy(int ranks, ShardingStrategy strategy, int workers, Whole& whole) {
  run_ranks(ranks, [&](Communicator& world) {
    manual_seed(4);
    Dropping model;
    climb(strategy, Subject::mlp, model, world);
    optim::SGD sgd(model.parameters(), {.lr = 1.0});
    const nn::data::MapDataset noisy(
        nn::data::TensorDataset({whole_batch(16)}), [](const nn::data::Example& one) {
          return nn::data::Example{one[0] + randint(0, 4, {3}).to(kFloat32)};
        });
    const int64_t each = 8 / ranks;
    nn::data::DistributedSampler sampler(
        noisy, {.num_replicas = ranks, .rank = world.rank(), .seed = 5, .turn = each});
    nn::data::DataLoader loader(noisy,
                                {.batch_size = each, .workers = workers, .sampler = &sampler});
    for (const nn::data::Example& batch : loader) mean(model(batch[0]).sum({1})).backward();
    sgd.step();
    add_state(whole, model, sgd);
  });
}

}  // namespace

TEST_CASE("a step with noise and dropout has the same bits on 1, 2, 4 and 8 ranks") {
  Whole expected;
  run_noisy(1, ShardingStrategy::ddp, 0, expected);
  for (const int ranks : {2, 4, 8}) {
    for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::fsdp}) {
      CAPTURE(ranks, name(strategy));
      Whole got;
      run_noisy(ranks, strategy, ranks % 4 / 2, got);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("masks of ranks differ, those of ranks with the same examples do not") {
  std::mutex mutex;
  std::vector<std::vector<float>> masks(4);
  run_ranks(4, [&](Communicator& world) {
    const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    nn::Sequential model{nn::Linear(8, 64), nn::Dropout(0.5)};
    manual_seed(1);
    const DDP ddp(model, mesh["data"]);
    const Tensor y = model(ones({4, 8}));
    const std::lock_guard<std::mutex> lock(mutex);
    masks[static_cast<size_t>(world.rank())] = (y != 0).to(kFloat32).to_vector<float>();
  });
  CHECK(masks[0] == masks[1]);
  CHECK(masks[2] == masks[3]);
  CHECK(masks[0] != masks[2]);
}

TEST_CASE("a module within another takes the part of the outer, and alone its own") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh(world, {{"outer", 2}, {"inner", 2}});
    nn::Sequential model{nn::Linear(3, 3), nn::Dropout(0.5), nn::Linear(3, 3)};
    nn::Module& inner = *model.children()[0];
    BatchPart seen;
    const auto look = [&seen](nn::Module&, const nn::Tensors&) {
      seen = batch_part();
      return nn::Tensors();
    };
    fully_shard(inner, mesh["inner"]);
    fully_shard(model, world);
    inner.register_forward_pre_hook(look);
    model(ones({2, 3})).sum().backward();
    expect(seen == BatchPart{world.rank(), 4}, "the world's part, got ", seen.rank, " of ",
           seen.ranks);
    inner(ones({2, 3})).sum().backward();
    expect(seen == BatchPart{world.rank() % 2, 2}, "the part of its own ranks, got ", seen.rank,
           " of ", seen.ranks);
    expect(batch_part() == BatchPart{}, "the whole batch behind forward");
  });
}

TEST_CASE("a forward that fails leaves the part of before") {
  run_ranks(2, [](Communicator& world) {
    nn::Sequential model{nn::Linear(3, 3), nn::Dropout(0.5)};
    const DDP ddp(model, world);
    const auto fails = [&] {
      try {
        (void)model(ones({2, 5}));
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    expect(fails(), "an input of another width is an Error");
    expect(batch_part() == BatchPart{}, "the whole batch behind an Error in forward");
    {
      bool once = true;
      auto handle =
          model.register_forward_pre_hook([&once](nn::Module&, const nn::Tensors&) -> nn::Tensors {
            if (std::exchange(once, false)) fail("a pre-hook fails");
            return {};
          });
      expect(fails(), "the pre-hook throws");
      (void)model(ones({2, 3}));
      handle.remove();
    }
    expect(batch_part() == BatchPart{}, "the whole batch behind the forward that comes next");
  });
}
