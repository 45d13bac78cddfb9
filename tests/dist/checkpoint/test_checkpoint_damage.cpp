// Checkpoints of several ranks whose files were damaged, and runs that do not fit them.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "dist/checkpoints.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;

namespace {

constexpr Stand kSource = {ShardingStrategy::fsdp, 3}, kTarget = {ShardingStrategy::zero2, 2};
constexpr Job kJob = {Subject::mlp, Method::adamw};

// What every rank of a run that tries to load says; where it fails it must be left as it was.
std::vector<std::string> errors_of_load(const std::string& run) {
  Whole before, after;
  std::vector<std::string> errors(static_cast<size_t>(kTarget.ranks));
  on_ranks(kTarget, kJob, [&](Runner& runner) {
    runner.step(7);
    add_state(before, *runner.model, *runner.optimizer);
    try {
      runner.checkpointer(run).resume();
    } catch (const Error& error) {
      errors[static_cast<size_t>(runner.world.rank())] = error.what();
    }
    add_state(after, *runner.model, *runner.optimizer);
  });
  CHECK((before.difference(after) == "") == !errors[0].empty());
  return errors;
}

}  // namespace

TEST_CASE(
    "every file of a checkpoint that is truncated, changed or removed is named on all ranks") {
  const TempDir dir;
  const std::string run = dir / "run";
  Whole saved;
  train_and_save(kSource, kJob, run, saved);
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(run + "/checkpoints/step-00000003")) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() == 8);  // three of the model, three of the optimizer, the manifest, COMPLETE
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).filename().string();
    const std::string bytes = slurp(file);
    std::string flipped = bytes;
    flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
    for (const std::string& damaged : {bytes.substr(0, bytes.size() / 2), flipped, std::string()}) {
      if (name == "COMPLETE" && damaged.empty()) continue;  // no checkpoint then: the next test
      damaged.empty() ? (void)std::filesystem::remove(file) : spill(file, damaged);
      for (const std::string& error : errors_of_load(run)) {
        CAPTURE(name, error);
        CHECK_THAT(error, ContainsSubstring(name));
        CHECK_THAT(error, ContainsSubstring(damaged.empty() ? "missing" : "damaged"));
        const size_t rank = name.find("-rank-0000");
        if (rank != std::string::npos) {
          CHECK_THAT(error, ContainsSubstring("which rank " + name.substr(rank + 10, 1)));
        }
      }
    }
    spill(file, bytes);
  }
  for (const std::string& error : errors_of_load(run)) CHECK(error == "");
}

TEST_CASE("a folder that is not complete is passed over, and so, when asked, is a damaged one") {
  const TempDir dir;
  const std::string run = dir / "run", newest = run + "/checkpoints/step-00000009";
  on_ranks(kSource, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint = runner.checkpointer(run);
    checkpoint.save(5);
    checkpoint.save(9);
    runner.world.barrier();
  });
  const auto resumed = [&](nn::Resume which) {
    int64_t step = -1;
    on_ranks(kTarget, kJob, [&](Runner& runner) {
      const int64_t found = runner.checkpointer(run).resume(which).value_or(-1);
      if (runner.world.rank() == 0) step = found;
    });
    return step;
  };
  CHECK(resumed(nn::Resume::newest) == 9);
  const std::string part = newest + "/model-rank-00001-of-00003.safetensors";
  spill(part, slurp(part).substr(1));
  CHECK(resumed(nn::Resume::newest_intact) == 5);
  CHECK_THROWS_WITH(resumed(nn::Resume::newest), ContainsSubstring("newest_intact"));
  spill(newest + "/COMPLETE", "\x1b[31m");  // a colour of the terminal
  {
    hero_test::CapturedStderr captured;
    CHECK(resumed(nn::Resume::newest_intact) == 5);
    const std::string text = captured.text();
    CHECK_THAT(text, ContainsSubstring("going back to the one before"));
    CHECK(text.find('\x1b') == std::string::npos);
  }
  std::filesystem::remove(newest + "/COMPLETE");
  CHECK(resumed(nn::Resume::newest) == 5);
  CHECK_THROWS_WITH(resumed(nn::Resume::no), ContainsSubstring("another run"));
}

TEST_CASE("the newest checkpoints stay, and those of an abandoned future go") {
  const TempDir dir;
  on_ranks(kSource, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint = runner.checkpointer(dir / "run");
    for (const int64_t step : {1, 2, 3}) checkpoint.save(step);
    expect(checkpoint.steps() == std::vector<int64_t>{2, 3}, "two are kept");
    checkpoint.load(2);
    checkpoint.save(2);
    expect(checkpoint.steps() == std::vector<int64_t>{2}, "step 3 is abandoned");
  });
  CHECK_THROWS_WITH(
      on_ranks(kTarget, kJob, [&](Runner& runner) { runner.checkpointer(dir / "run").save(4); }),
      ContainsSubstring("holds checkpoints of another run"));
}

TEST_CASE("a checkpoint of another program is refused, and nothing changes") {
  const TempDir dir;
  const std::string run = dir / "run";
  Whole saved;
  train_and_save(kSource, kJob, run, saved);
  const auto refused = [&](Job job, const char* what) {
    Whole before, after;
    CHECK_THROWS_WITH(on_ranks(kTarget, job,
                               [&](Runner& runner) {
                                 runner.step(7);
                                 add_state(before, *runner.model, *runner.optimizer);
                                 try {
                                   runner.checkpointer(run).resume();
                                 } catch (const Error&) {
                                   add_state(after, *runner.model, *runner.optimizer);
                                   throw;
                                 }
                               }),
                      ContainsSubstring("does not fit this program") && ContainsSubstring(what));
    CHECK(before.difference(after) == "");
  };
  refused({Subject::mlp, Method::sgd}, "exp_avg");
  refused({Subject::gpt, Method::adamw}, "missing: ");
  CHECK_THROWS_WITH(on_ranks(kTarget, kJob,
                             [&](Runner& runner) {
                               int64_t epoch = 0;
                               dist::Checkpointer checkpoint = runner.checkpointer(run);
                               checkpoint.track("epoch", epoch);
                               checkpoint.resume();
                             }),
                    ContainsSubstring("integer epoch is missing"));
}

TEST_CASE("a rank that cannot write is named on all ranks, and no checkpoint is there") {
  const TempDir dir;
  const std::vector<std::string> errors = errors_of(3, [&](dist::Communicator& world) {
    nn::Linear linear(3, 5);
    dist::fully_shard(linear, world);
    Tensor stray = zeros({3}, {.requires_grad = true});
    std::vector<Tensor> parameters = linear.parameters();
    if (world.rank() == 1) parameters.push_back(stray);
    optim::SGD sgd(parameters, {.lr = 0.1});
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", linear);
    checkpoint.track("optimizer", sgd);
    checkpoint.save(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               ContainsSubstring("belongs to no tracked module") && ContainsSubstring("(rank 1)"));
  }
  CHECK(std::filesystem::is_empty(dir / "run/checkpoints"));
}
