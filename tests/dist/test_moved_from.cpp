// What was moved from, and functions that are not there: an Error, or still as it was, and never a
// crash.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/ddp.h>
#include <hero/dist/ddp_comm_hooks.h>
#include <hero/dist/launch.h>
#include <hero/dist/mesh.h>
#include <hero/dist/pipeline.h>
#include <hero/dist/trainer.h>
#include <hero/dist/zero.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

using Calls = std::vector<std::function<void()>>;

// Every call is an Error of `what`, which was moved from. Of ranks that are threads.
void refused(const std::string& what, const Calls& calls) {
  size_t at = 0;
  for (const auto& call : calls) {
    std::string said;
    try {
      call();
    } catch (const Error& error) {
      said = error.what();
    }
    const bool told = said.starts_with(what) && said.find(
                                                    "it was moved from; use the one that it "
                                                    "was moved into") != said.npos;
    expect(told, what, " call ", at++, " is refused: '", said, "'");
  }
}

// Takes what is in `from`, which lives on.
template <class T>
T taken(T& from) {
  return T(std::move(from));
}

const nn::GPTConfig kSmall = {
    .vocab_size = 8, .block_size = 4, .n_layer = 2, .n_head = 2, .n_embd = 4};

}  // namespace

// NOLINTBEGIN(bugprone-use-after-move)

TEST_CASE("groups of ranks, meshes, pipelines and trainers that were moved from are errors",
          "[moved]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    dist::Communicator group = world.split(0, world.rank());
    const dist::Communicator other = taken(group);
    const Array x = Array::ones({2}), y = Array::ones({4});
    refused(
        "communicator: undefined",
        {[&] { group.rank(); }, [&] { group.size(); }, [&] { group.world_ranks(); },
         [&] { group.all_reduce(x); }, [&] { group.all_gather(y, x); },
         [&] { group.broadcast(x, 0); }, [&] { group.send(x, 0); }, [&] { group.recv(x, 0); },
         [&] { group.barrier(); }, [&] { group.declare("x"); }, [&] { group.split(0, 0); },
         [&] { group.group(std::vector<int>{0}); }, [&] { group.traffic(); }, [&] { group.out(); },
         [&] {
           dist::Mesh(group, {{"a", 1}});
         }});
    expect(!group.defined() && other.size() == 2, "the group is where it was moved to");

    dist::Mesh mesh(world, {{"a", 2}, {"b", 1}});
    const dist::Mesh other_mesh = taken(mesh);
    refused("mesh: ",
            {[&] { mesh["a"]; }, [&] { mesh.coordinate("a"); }, [&] { mesh.sub({"a"}); }});
    expect(other_mesh["a"].size() == 2, "the mesh is where it was moved to");

    nn::GPT gpt(kSmall);
    dist::Pipeline pipe(gpt, world, {.micro_batches = 2});
    dist::Pipeline other_pipe = taken(pipe);
    const Tensor tokens = zeros({2, 4}, kInt64);
    refused("pipeline: ", {[&] { pipe.step(tokens, tokens); }, [&] { pipe.loss(tokens, tokens); },
                           [&] { pipe(tokens); }, [&] { pipe.generate(tokens); },
                           [&] { pipe.parameters(); }, [&] { pipe.layers(); }});
    other_pipe.step(tokens, tokens);
    pipe = std::move(other_pipe);
    expect(!pipe.parameters().empty(), "what is moved into can be used again");

    SmallMLP model;
    dist::Trainer trainer(model, world, dist::Config::parse(R"({"train_batch_size": 4,
                             "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}})"));
    dist::Trainer other_trainer = taken(trainer);
    const TempDir dir;
    dist::Checkpointer checkpoint(dir / "run", {});
    refused(
        "trainer: ",
        {[&] { trainer.forward([] { return Tensor(); }); }, [&] { trainer.backward(ones({1})); },
         [&] { trainer.step(); }, [&] { trainer.train_batch(tokens, tokens); },
         [&] { trainer.data_rank(); }, [&] { trainer.data_ranks(); },
         [&] { trainer.is_gradient_accumulation_boundary(); }, [&] { trainer.config(); },
         [&] { trainer.train_batch_size(); }, [&] { trainer.global_steps(); },
         [&] { trainer.micro_steps(); }, [&] { trainer.skipped_steps(); }, [&] { trainer.lr(); },
         [&] { trainer.loss_scale(); }, [&] { trainer.global_grad_norm(); },
         [&] { trainer.module(); }, [&] { trainer.full_state_dict(); },
         [&] { trainer.optimizer(); }, [&] { trainer.track(checkpoint); }});
    expect(other_trainer.config().train_batch_size == 4, "the trainer is where it was moved to");
    bool empty_refused = false;
    try {
      other_trainer.forward({});
    } catch (const Error& error) {
      empty_refused = std::string(error.what()).starts_with("trainer: forward takes a function");
    }
    expect(empty_refused, "a function that is not there");
  });
}

TEST_CASE(
    "handles of the strategies, hooks and shared sequences stay whole when they are moved from",
    "[moved]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto stays = [&](auto&& parallel) {
      const auto other = taken(parallel);
      expect(&parallel.module() == &other.module(), "the same module");
      parallel.parameters();
      parallel.units();
      parallel.set_requires_gradient_sync(true);
      { const auto none = parallel.no_sync(); }
      parallel.full_state_dict();
    };
    SmallMLP a, b, c, d;
    stays(dist::DDP(a, world));
    stays(dist::ZeRO(b, world, {.stage = 2}));
    stays(dist::fully_shard(c, world));
    const dist::DDP ddp(d, world);
    auto sync = ddp.no_sync();
    { const auto other = taken(sync); }
    dist::CodecHook codec;
    dist::PowerSGDHook power;
    const auto other_codec = taken(codec);
    const auto other_power = taken(power);
    codec.reset_rank_state();
    codec.load_rank_state_dict(codec.rank_state_dict());
    power.reset_rank_state();
    power.load_rank_state_dict(power.rank_state_dict());
    ddp.register_comm_hook(codec);
    ddp.register_comm_hook(power);

    nn::GPT gpt(kSmall);
    auto shared = dist::context_parallel(gpt, world);
    const auto other_shared = taken(shared);
    expect(shared.positions(4) == other_shared.positions(4), "the same positions");
    shared.mean(ones({}));
  });
}

TEST_CASE("a future that was moved from has nothing to do, and a step of no function is an error",
          "[moved]") {
  int done = 0;
  dist::Future future = dist::Future().then([&] { ++done; }).then([&] { ++done; });
  future.advance();
  dist::Future other = taken(future);
  future.advance();
  future.wait();
  future.abandon();
  CHECK(done == 1);
  other.wait();
  CHECK(done == 2);
  dist::Future empty = dist::Future().then(std::function<dist::Work()>());
  CHECK_THROWS_WITH(empty.wait(), ContainsSubstring("future: a step that then() added is no "));
  dist::Work work;
  const dist::Work other_work = taken(work);
  work.wait();
  CHECK(work.test());
}

TEST_CASE("a checkpointer of ranks that was moved from writes nothing anywhere", "[moved]") {
  const TempDir dir;
  SmallMLP model;
  optim::AdamW adamw(model.parameters());
  dist::Checkpointer checkpoint(dir / "run", {});
  dist::Checkpointer other = taken(checkpoint);
  int64_t number = 0;
  double value = 0;
  Generator generator;
  const Calls calls = {[&] { checkpoint.save(1); },
                       [&] { checkpoint.save(1, {.async = true}); },
                       [&] { checkpoint.wait(); },
                       [&] { checkpoint.resume(); },
                       [&] { checkpoint.load(1); },
                       [&] { checkpoint.steps(); },
                       [&] { checkpoint.folder(1); },
                       [&] { checkpoint.track("model", model); },
                       [&] { checkpoint.track("adamw", adamw); },
                       [&] { checkpoint.track("number", number); },
                       [&] { checkpoint.track("value", value); },
                       [&] { checkpoint.track("generator", generator); },
                       [&] { checkpoint.encode("model", {}); }};
  for (const auto& call : calls) {
    CHECK_THROWS_WITH(call(), ContainsSubstring("checkpoint: it was moved from; use the "));
  }
  CHECK(dir.entries() == 0);
  other.track("model", model);
  other.save(1);
  CHECK(other.steps() == std::vector<int64_t>{1});
}

TEST_CASE("ranks need a function to run", "[moved]") {
  CHECK_THROWS_WITH(dist::run_ranks(2, {}), ContainsSubstring("run_ranks: there is no function"));
  CHECK_THROWS_WITH(dist::simulate_ranks(2, {}),
                    ContainsSubstring("simulate_ranks: there is no function"));
}

// NOLINTEND(bugprone-use-after-move)
