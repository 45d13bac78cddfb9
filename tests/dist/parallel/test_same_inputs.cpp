// What ranks that compute one model together must have alike, and the whole state of what they have
// cut.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr nn::GPTConfig kSmall = {
    .vocab_size = 19, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8};

Tensor tokens_of(int64_t seed) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 16; ++i) ids.push_back((seed + i * i) % 19);
  return Tensor(Array::from(ids, {2, 8}));
}

using Share = void (*)(nn::GPT&, const Communicator&);

void in_slices(nn::GPT& model, const Communicator& world) { tensor_parallel(model, world); }
void in_cut_sequences(nn::GPT& model, const Communicator& world) {
  tensor_parallel(model, world, {.sequence = true});
}
void in_runs(nn::GPT& model, const Communicator& world) {
  context_parallel(model, world);
  fully_shard(model, world);
}

// What the ranks threw in a step with these tokens and targets.
template <class Batch>
std::vector<std::string> step_errors(Share share, const Batch& batch) {
  return errors_of(2, [&](Communicator& world) {
    manual_seed(1);
    nn::GPT model(kSmall);
    share(model, world);
    const auto [tokens, targets] = batch(world.rank());
    model.loss(tokens, targets).backward();
  });
}

TEST_CASE("ranks that compute one model together are told where their tokens differ") {
  for (const Share share : {in_slices, in_cut_sequences, in_runs}) {
    for (const std::string& error :
         step_errors(share, [](int) { return std::pair(tokens_of(1), tokens_of(2)); })) {
      CHECK(error == "");
    }
    for (const bool targets : {false, true}) {
      const auto errors = step_errors(share, [&](int rank) {
        return std::pair(tokens_of(targets ? 1 : rank), tokens_of(targets ? rank : 1));
      });
      for (const std::string& error : errors) {
        CHECK_THAT(error, ContainsSubstring("ranks disagree on what they did before: rank 0 says"));
        CHECK_THAT(error,
                   ContainsSubstring(share == in_runs ? "give context_parallel int64 [2, 8]"
                                                      : "give tensor_parallel int64 [2, 8]"));
      }
    }
  }
}

TEST_CASE("ranks whose uncut parameters differ at first are told so, unless they load the same") {
  for (const bool loads : {false, true}) {
    const auto errors = errors_of(2, [&](Communicator& world) {
      manual_seed(1);
      const nn::GPT first(kSmall);
      manual_seed(2 + static_cast<uint64_t>(world.rank()));
      nn::GPT model(kSmall);
      if (loads) model.load_state_dict(first.state_dict());
      tensor_parallel(model, world);
      for (int step = 0; step < 2; ++step) model.loss(tokens_of(1), tokens_of(2)).backward();
    });
    for (const std::string& error : errors) {
      if (loads) {
        CHECK(error == "");
      } else {
        CHECK_THAT(error, ContainsSubstring("tensor_parallel begins with uncut parameters of"));
      }
    }
  }
}

TEST_CASE("what a single rank asks of a shared sequence is compared with nobody's") {
  for (const std::string& error : errors_of(2, [](Communicator& world) {
         manual_seed(1);
         nn::GPT model(kSmall);
         const ContextParallel context = context_parallel(model, world);
         if (world.rank() == 0) expect(context.positions(8).size() == 4, "half of the positions");
         if (world.rank() == 1) context.take(tokens_of(3));
         model.loss(tokens_of(1), tokens_of(2)).backward();
       })) {
    CHECK(error == "");
  }
}

// The state of a model that was cut so, after a step, against that of checkpoint files' way.
template <class Cut>
void check_state(int ranks, const Cut& cut) {
  run_ranks(ranks, [&](Communicator& world) {
    manual_seed(1);
    nn::GPTConfig config = kSmall;
    config.tie_weights = false;
    nn::GPT whole(config);
    manual_seed(1);
    nn::GPT model(config);
    std::unique_ptr<Pipeline> pipe;
    const DataParallel parallel = cut(model, world, pipe);
    const nn::StateDict state = parallel.full_state_dict(), expected = whole.state_dict();
    expect(state.size() == expected.size(), "all names");
    for (size_t i = 0; i < state.size(); ++i) {
      expect(state[i].name == expected[i].name, "the order of the names");
      expect(same(state[i].array, expected[i].array), state[i].name);
    }
    expect(same(parallel.full_state_dict()[0].array, expected[0].array), "again");
  });
}

TEST_CASE("the full state of a module that is cut over other axes has the values of the whole") {
  using Pipe = std::unique_ptr<Pipeline>;
  SECTION("in slices, of which a rank may have several") {
    for (const int tensor : {1, 2}) {
      check_state(2 * tensor, [&](nn::GPT& model, Communicator& world, Pipe&) {
        const Mesh mesh(world, {{"data", 2}, {"tensor", tensor}});
        tensor_parallel(model, mesh["tensor"], {.slices = 2});
        return fully_shard(model, mesh["data"], {.unit = each<nn::Block>()});
      });
    }
  }
  SECTION("under DDP, converted") {
    check_state(4, [&](nn::GPT& model, Communicator& world, Pipe&) {
      const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
      tensor_parallel(model, mesh["tensor"]);
      return DDP(model, mesh["data"]);
    });
  }
  SECTION("in stages of slices in shards") {
    check_state(8, [&](nn::GPT& model, Communicator& world, Pipe& pipe) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}, {"tensor", 2}});
      tensor_parallel(model, mesh["tensor"]);
      pipe = std::make_unique<Pipeline>(model, mesh["pipe"]);
      return fully_shard(model, mesh["data"], {.unit = each<nn::Block>()});
    });
  }
}

TEST_CASE("the full state has all experts") {
  run_ranks(2, [](Communicator& world) {
    struct Model : nn::Module {
      nn::MoE& moe = add<nn::MoE>("moe", 8, 16, 4, nn::MoEOptions{.top_k = 2});
      Tensor forward(const Tensor& x) override { return moe(x); }
    };
    manual_seed(1);
    const Model whole;
    manual_seed(1);
    Model model;
    const auto experts = expert_parallel(model, world);
    const auto fsdp = fully_shard(model, world, {.ignored_modules = experts});
    expect(same_state(fsdp.full_state_dict(), whole.state_dict()), "the whole's values");
  });
}

}  // namespace
