// Modules made on meta, and put under a strategy: all of their values are there afterwards.
#include <functional>
#include <memory>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

// What no unit takes: buffers, and a layer that is frozen or ignored.
struct Normed : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 7, 6);
  nn::Linear& still = add<nn::Linear>("still", 6, 6);
  nn::BatchNorm1d& norm = add<nn::BatchNorm1d>("norm", 6);
  nn::Linear& out = add<nn::Linear>("out", 6, 5);
  Normed() { still.requires_grad_(false); }
  Tensor forward(const Tensor& x) override { return out(norm(still(in(x)))); }
};

}  // namespace

TEST_CASE(
    "a module made on meta has all of its values under every strategy, also what no unit takes") {
  manual_seed(7);
  const nn::StateDict expected = Normed().state_dict();
  const std::vector<std::function<DataParallel(nn::Module&, Communicator&)>> strategies = {
      [](nn::Module& m, Communicator& world) { return DDP(m, world); },
      [](nn::Module& m, Communicator& world) { return ZeRO(m, world, {.stage = 1}); },
      [](nn::Module& m, Communicator& world) { return ZeRO(m, world, {.stage = 2}); },
      [](nn::Module& m, Communicator& world) { return ZeRO(m, world, {.stage = 3}); },
      [](nn::Module& m, Communicator& world) { return fully_shard(m, world); },
      [](nn::Module& m, Communicator& world) {
        return fully_shard(m, world, {.ignored_modules = {"still"}});
      }};
  for (size_t strategy = 0; strategy < strategies.size(); ++strategy) {
    CAPTURE(strategy);
    run_ranks(2, [&](Communicator& world) {
      const auto on_meta = [&] {
        const nn::DeviceScope meta(kMeta);
        manual_seed(7);
        return std::make_unique<Normed>();
      };
      auto model = on_meta();
      const DataParallel parallel = strategies[strategy](*model, world);
      expect(same_state(parallel.full_state_dict(), expected), "the same first values");
      sum(square((*model)(ones({3, 7})))).backward();
      expect(model->still.weight.device() == kCpu, "the frozen layer has bytes");
    });
  }
}

TEST_CASE("ranks that would draw the values of a module on meta from other streams are told so") {
  for (const int stage : {0, 1, 3}) {
    CAPTURE(stage);
    const auto errors = errors_of(2, [&](Communicator& world) {
      manual_seed(static_cast<uint64_t>(world.rank()));
      const auto on_meta = [] {
        const nn::DeviceScope meta(kMeta);
        return std::make_unique<Normed>();
      };
      auto model = on_meta();
      if (stage == 0) {
        fully_shard(*model, world);
      } else {
        ZeRO(*model, world, {.stage = stage});
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("in.weight float32 [6, 7] of random stream"));
    }
  }
}
