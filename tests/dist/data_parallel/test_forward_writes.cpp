// Parameters that a module writes to in its forward: kept where all ranks write the same, else an
// Error on every rank; never other values on each rank, and never lost.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A linear layer that clips its weight before it uses it, always or where that is needed.
struct Clipped : nn::Linear {
  bool always = true;
  Clipped() : nn::Linear(3, 3, nn::LinearOptions{.bias = false}) {}
  Tensor forward(const Tensor& x) override {
    {
      const NoGrad no_grad;
      if (always || amax(abs(weight)).item() > 0.125) weight.clamp_(-0.125, 0.125);
    }
    return nn::Linear::forward(x);
  }
};

struct Model : nn::Module {
  nn::Embedding& table = add<nn::Embedding>("table", 6, 3, nn::EmbeddingOptions{.max_norm = 1.0});
  Clipped& clipped = add<Clipped>("clipped");
  nn::Linear& out = add<nn::Linear>("out", 3, 2);
  bool checkpoints = false;
  Tensor forward(const Tensor& x) override {
    const Tensor h = table(x);
    return out(tanh(checkpoints ? checkpoint([&](const Tensor& in) { return clipped(in); }, h)
                                : clipped(h)));
  }
};

enum class Way { plain, ddp, zero1, zero2, zero3, root, units, kept, nested, hybrid };
constexpr Way kWays[] = {Way::ddp,   Way::zero1, Way::zero2,  Way::zero3, Way::root,
                         Way::units, Way::kept,  Way::nested, Way::hybrid};
constexpr const char* kNames[] = {"plain", "ddp",   "zero1", "zero2",  "zero3",
                                  "root",  "units", "kept",  "nested", "hybrid"};

UnitPolicy parts() { return each_of({"table", "clipped"}); }

std::optional<DataParallel> shard(Way way, Model& model, const Communicator& world) {
  switch (way) {
    case Way::plain:
      return {};
    case Way::ddp:
      return DDP(model, world, {.bucket_bytes = 40, .first_bucket_bytes = 20});
    case Way::zero1:
      return ZeRO(model, world, {.stage = 1, .bucket_bytes = 40});
    case Way::zero2:
      return ZeRO(model, world, {.stage = 2, .bucket_bytes = 40});
    case Way::zero3:
      return ZeRO(model, world, {.stage = 3});
    case Way::root:
      return fully_shard(model, world);
    case Way::units:
      return fully_shard(model, world, {.unit = parts()});
    case Way::kept:
      return fully_shard(model, world, {.unit = parts(), .reshard_after_forward = false});
    case Way::nested:
      fully_shard(model.table, world);
      fully_shard(model.clipped, world);
      return fully_shard(model, world);
    case Way::hybrid: {
      const int group = world.size() == 1 ? 1 : 2;
      const Mesh mesh(world, {{"replicate", world.size() / group}, {"shard", group}});
      return fully_shard(model, mesh, {.unit = parts()});
    }
  }
  return {};
}

/// The state after some steps and a forward without gradients, in which `rows` says which rows of
/// the table a rank uses.
template <class Rows>
std::vector<uint64_t> hashes_after(Way way, const Communicator& world, bool checkpoints,
                                   const Rows& rows) {
  manual_seed(1);
  Model model;
  model.checkpoints = checkpoints;
  model.clipped.always = !checkpoints;  // what is computed again must not be written again
  {
    const NoGrad no_grad;
    model.table.weight.mul_(3.0);
  }
  const auto parallel = shard(way, model, world);
  optim::SGD sgd(model.parameters(), {.lr = 0.5});
  for (int64_t step = 0; step < 4; ++step) {
    (model(rows(step)) - 5.0).square().mean().backward();
    sgd.step();
    sgd.zero_grad();
  }
  {
    const NoGrad no_grad;
    model(rows(4));
  }
  std::vector<uint64_t> hashes;
  const nn::StateDict state = parallel ? parallel->full_state_dict() : model.state_dict();
  for (const auto& entry : state) hashes.push_back(hash(entry.array));
  return hashes;
}

Tensor same_rows(int64_t step) { return tensor({step % 3, int64_t{4}}); }

}  // namespace

TEST_CASE("what all ranks write to parameters in forward is kept under every strategy") {
  for (const bool checkpoints : {false, true}) {
    std::vector<uint64_t> expected;
    run_ranks(1, [&](Communicator& world) {
      expected = hashes_after(Way::plain, world, checkpoints, same_rows);
    });
    for (const int ranks : {1, 2, 4}) {
      for (const Way way : kWays) {
        CAPTURE(ranks, kNames[static_cast<int>(way)], checkpoints);
        CHECK_NOTHROW(run_ranks(ranks, [&](Communicator& world) {
          expect(hashes_after(way, world, checkpoints, same_rows) == expected, "the same bits");
        }));
      }
    }
  }
}

TEST_CASE("ranks that write other values in forward are told so, with the parameter's name") {
  for (const Way way : kWays) {
    CAPTURE(kNames[static_cast<int>(way)]);
    for (const bool both : {false, true}) {
      const auto errors = errors_of(2, [&](Communicator& world) {
        hashes_after(way, world, false, [&](int64_t step) {
          return tensor({both ? (world.rank() * 3 + step % 3) : int64_t{world.rank() * 3}});
        });
      });
      for (const std::string& error : errors) {
        CHECK_THAT(error, ContainsSubstring("forward wrote to"));
        CHECK_THAT(error, ContainsSubstring("'table.weight'"));
        CHECK_THAT(error, ContainsSubstring("write between two steps"));
      }
    }
  }
}

TEST_CASE("a frozen table that ranks limit by their own rows is an error, too") {
  for (const Way way : kWays) {
    CAPTURE(kNames[static_cast<int>(way)]);
    const auto errors = errors_of(2, [&](Communicator& world) {
      manual_seed(1);
      Model model;
      {
        const NoGrad no_grad;
        model.table.weight.mul_(3.0);
      }
      model.table.requires_grad_(false);
      const auto parallel = shard(way, model, world);
      for (int step = 0; step < 2; ++step) {
        model(tensor({int64_t{world.rank() * 3}})).square().mean().backward();
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("'table.weight'"));
    }
  }
}

TEST_CASE("one rank alone that writes in a forward without gradients is named at the next step") {
  for (const Way way : {Way::ddp, Way::zero1, Way::zero2}) {
    CAPTURE(kNames[static_cast<int>(way)]);
    const auto errors = errors_of(2, [&](Communicator& world) {
      manual_seed(1);
      Model model;
      const auto parallel = shard(way, model, world);
      model(same_rows(0)).sum().backward();
      {
        const NoGrad no_grad;
        model.table.weight.mul_(9.0);
        if (world.rank() == 1) model(same_rows(1));
      }
      model(same_rows(0)).sum().backward();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("forward wrote to"));
    }
  }
}
