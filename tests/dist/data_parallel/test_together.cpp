// Features that meet under a strategy: checkpoints within units, masters that were there before,
// options of another stage.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/swap_file.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

/// Runs its layer again in backward, within its own forward.
struct Recomputed : nn::Module {
  nn::Linear& layer = add<nn::Linear>("layer", 6, 6);
  Tensor forward(const Tensor& x) override {
    return checkpoint([this](const Tensor& y) { return tanh(layer(y)); }, x);
  }
};

struct Recomputing : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 7, 6);
  Recomputed& first = add<Recomputed>("first");
  Recomputed& second = add<Recomputed>("second");
  nn::Linear& out = add<nn::Linear>("out", 6, 5);
  Tensor forward(const Tensor& x) override { return out(second(first(in(x)))); }
};

Array batch(int step, int rank) {
  return noise({2, 7}, kFloat32, static_cast<uint64_t>(10 * step + rank + 1));
}

}  // namespace

TEST_CASE("what a checkpoint within a unit computes again is whole, also on a single rank") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    manual_seed(7);
    Recomputing alone;
    optim::Accumulator gradients(alone.parameters());
    for (int r = 0; r < ranks; ++r) {
      sum(square(alone(Tensor(batch(0, r))))).backward();
      gradients.add();
    }
    gradients.mean();
    optim::SGD(alone.parameters(), {.lr = 0.1}).step();
    run_ranks(ranks, [&](Communicator& world) {
      manual_seed(7);
      Recomputing model;
      const auto sharded = fully_shard(model, world, {.unit = each<Recomputed>()});
      sum(square(model(Tensor(batch(0, world.rank()))))).backward();
      optim::SGD(model.parameters(), {.lr = 0.1}).step();
      expect(same_state(sharded.full_state_dict(), alone.state_dict()), "the bits of one process");
    });
  }
}

TEST_CASE("masters that were made before a strategy follow their parameters") {
  using Masters = optim::MasterWeights<optim::AdamW>;
  const auto train = [](ShardingStrategy strategy, bool early, bool meta, Whole& whole) {
    run_ranks(3, [&](Communicator& world) {
      std::optional<nn::DeviceScope> scope;
      if (meta) scope.emplace(kMeta);
      const auto model = make_subject(Subject::mlp);
      scope.reset();
      model->to(kBFloat16);
      std::optional<Masters> masters;
      if (early) masters.emplace(model->parameters(), optim::AdamWOptions{.lr = 0.01});
      climb(strategy, Subject::mlp, *model, world);
      if (!early) masters.emplace(model->parameters(), optim::AdamWOptions{.lr = 0.01});
      for (int step = 0; step < 3; ++step) {
        subject_loss(Subject::mlp, *model, step, world.rank()).backward();
        masters->take_gradients();
        optim::clip_grad_norm(masters->parameters(), 0.1);
        masters->step();
        masters->zero_grad();
      }
      add_state(whole, *model, *masters);
    });
  };
  for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::zero1,
                                          ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    for (const bool meta : {false, true}) {
      CAPTURE(name(strategy), meta);
      Whole late, early;
      train(strategy, false, meta, late);
      train(strategy, true, meta, early);
      CHECK(late.size() > 4);
      CHECK(late.difference(early) == "");
    }
  }
}

TEST_CASE("units are refused in the stages of ZeRO that have buckets") {
  for (const int stage : {1, 2, 3}) {
    const auto errors = errors_of(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      ZeRO(*model, world, {.stage = stage, .unit = each<nn::Linear>()});
    });
    for (const std::string& error : errors) {
      CHECK((stage == 3 ? error.empty() : error.find("zero: unit needs stage 3") == 0));
    }
  }
}

// Both codecs have rows of the same length, so no collective would see the difference.
TEST_CASE("ranks with other codecs, files or stages are refused before anything is cut") {
  using Put = std::function<void(nn::Module&, const Communicator&, bool odd, core::SwapFile&)>;
  const auto check_refused = [](const std::string& line, const Put& put) {
    const auto errors = errors_of(3, [&](Communicator& world) {
      core::SwapFile file("/tmp", {.bytes = 1 << 16});
      const auto model = make_subject(Subject::mlp);
      put(*model, world, world.rank() == 1, file);
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Matchers::ContainsSubstring("shard: ranks have different modules: "
                                                           "rank 0 has option " +
                                                           line));
    }
  };
  const auto coded = [](auto member) {
    return [member](nn::Module& m, const Communicator& world, bool odd, core::SwapFile&) {
      FSDPOptions options;
      options.quantize.*member = odd ? core::Codec::int8 : core::Codec::fp8_e4m3;
      fully_shard(m, world, options);
    };
  };
  check_refused("quantize.weights fp8_e4m3, rank 1 has option quantize.weights int8",
                coded(&Quantize::weights));
  check_refused("quantize.gradients fp8_e4m3, rank 1 has option quantize.gradients int8",
                coded(&Quantize::gradients));
  check_refused("offload.disk none, rank 1 has option offload.disk a file",
                [](nn::Module& m, const Communicator& world, bool odd, core::SwapFile& file) {
                  fully_shard(m, world, {.offload = {.disk = odd ? &file : nullptr}});
                });
  check_refused("strategy zero 2, rank 1 has option strategy zero 1",
                [](nn::Module& m, const Communicator& world, bool odd, core::SwapFile&) {
                  ZeRO(m, world, {.stage = odd ? 1 : 2});
                });
  check_refused("mixed_precision.output none, rank 1 has option mixed_precision.output bfloat16",
                [](nn::Module& m, const Communicator& world, bool odd, core::SwapFile&) {
                  FSDPOptions options;
                  if (odd) options.mixed_precision.output = kBFloat16;
                  fully_shard(m, world, options);
                });
}
