// The program of docs/guides/checkpoints.md.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using hero_test::TempDir;

namespace {

Tensor next_loss(nn::Module& model, int64_t step, int rank) {
  return test::subject_loss(test::Subject::gpt, model, static_cast<int>(step), rank);
}

void train(dist::Communicator& world, const std::string& run, int64_t steps, nn::Resume resume) {
  manual_seed(1);
  nn::GPT model({.vocab_size = 19, .block_size = 6, .n_layer = 2, .n_head = 2, .n_embd = 8});
  dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});

  // [snippet: run]
  dist::Checkpointer checkpoint(run, world, {.keep = 2});
  checkpoint.track("model", model);
  checkpoint.track("optimizer", adamw);
  int64_t step = checkpoint.resume(resume).value_or(0);
  while (step < steps) {
    next_loss(model, step, world.rank()).backward();
    adamw.step();
    adamw.zero_grad();
    if (++step % 5 == 0) checkpoint.save(step);
  }
  // [end]
  dist::save_full(run + "/gpt.safetensors", world, model);
}

void train_on(dist::Checkpointer& checkpoint, int64_t steps, const std::function<void()>& next) {
  // [snippet: async]
  for (int64_t step = 1; step <= steps; ++step) {
    next();
    if (step % 5 == 0) checkpoint.save(step, {.async = true});  // returns when all is copied
  }
  checkpoint.wait();  // the last one is complete, or an Error says on all ranks why not
  // [end]
}

}  // namespace

TEST_CASE("the page's program begins on three ranks and goes on on two, then one") {
  const TempDir dir;
  const std::string run = dir / "run";
  const auto on = [&](int ranks, int64_t steps, nn::Resume resume) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) { train(world, run, steps, resume); });
  };
  on(3, 5, nn::Resume::no);
  on(2, 10, nn::Resume::newest);
  on(1, 15, nn::Resume::newest);
  nn::GPT model(test::tiny_gpt());
  dist::load_full(run + "/checkpoints/step-00000015", {}, model);
  nn::GPT exported(test::tiny_gpt());
  exported.load(run + "/gpt.safetensors");
  test::Whole a, b;
  test::add_state(a, model, optim::SGD(model.parameters(), {.lr = 0.1}));
  test::add_state(b, exported, optim::SGD(exported.parameters(), {.lr = 0.1}));
  CHECK(a.difference(b) == "");
  CHECK_FALSE(std::filesystem::exists(run + "/checkpoints/step-00000005"));
}

TEST_CASE("the page's loop saves while it trains") {
  const TempDir dir;
  const std::string run = dir / "run";
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::Linear model(5, 3);
    dist::fully_shard(model, world);
    dist::Checkpointer checkpoint(run, world, {.keep = 2});
    checkpoint.track("model", model);
    int64_t steps = 0;
    train_on(checkpoint, 17, [&] { ++steps; });
    test::expect(steps == 17 && checkpoint.steps() == std::vector<int64_t>{10, 15}, "two are kept");
  });
}
