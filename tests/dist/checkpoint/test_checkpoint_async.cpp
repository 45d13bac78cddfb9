// Checkpoints of several ranks whose files threads write while the ranks go on.
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::SmallDisk, hero_test::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr nn::SaveOptions kAsync{.async = true};
constexpr Job kJob = {Subject::mlp, Method::adamw};

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = slurp(entry.path().string());
  }
  return files;
}

std::vector<int64_t> steps_in(const std::string& run) {
  return dist::Checkpointer(run, dist::Communicator()).steps();
}

// Waits for a file without saying anything to the checkpointer.
bool appears(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!fs::exists(path)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Takes the name of rank 1's file while the states are copied.
void be_in_the_way(dist::Checkpointer& checkpoint, const std::string& run, const bool& on) {
  checkpoint.track(
      "obstacle",
      [run, &on] {
        if (on) {
          fs::create_directory(run +
                               "/checkpoints/step-00000020.tmp/"
                               "model-rank-00001-of-00003.safetensors");
        }
        return nn::StateDict();
      },
      [](const auto&) {});
}

}  // namespace

TEST_CASE("ranks that save in the background write the bytes of a save", "[async][threads]") {
  for (const auto& [strategy, ranks] : {std::pair(ShardingStrategy::ddp, 2),
                                        {ShardingStrategy::zero1, 3},
                                        {ShardingStrategy::zero2, 2},
                                        {ShardingStrategy::zero3, 3},
                                        {ShardingStrategy::fsdp, 4},
                                        {ShardingStrategy::hybrid, 4},
                                        {ShardingStrategy::single, 1}}) {
    CAPTURE(name(strategy), ranks);
    const TempDir dir;
    on_ranks({strategy, ranks}, {Subject::odd, Method::adamw}, [&](Runner& runner) {
      double number = 0.25;
      Generator generator(5);
      dist::Checkpointer at_once = runner.checkpointer(dir / "at once");
      dist::Checkpointer later = runner.checkpointer(dir / "later");
      for (dist::Checkpointer* checkpoint : {&at_once, &later}) {
        checkpoint->track("number", number);
        checkpoint->track("generator", generator);
      }
      runner.step(0);
      at_once.save(1);
      later.save(1, kAsync);
      later.wait();
    });
    const auto expected = files_in(dir / "at once/checkpoints/step-00000001");
    CHECK(expected.size() >= 4);
    CHECK((files_in(dir / "later/checkpoints/step-00000001") == expected));
  }
}

TEST_CASE("ranks train on while a checkpoint of the bits before is written", "[async][threads]") {
  const TempDir dir;
  const std::string run = dir / "run";
  constexpr Stand kFrom{ShardingStrategy::fsdp, 3};
  Whole at_save, at_end, loaded, again;
  on_ranks(kFrom, kJob, [&](Runner& runner) {
    for (int i = 0; i < kStepsBefore; ++i) runner.step(i);
    dist::Checkpointer checkpoint = runner.checkpointer(run);
    checkpoint.save(kStepsBefore, kAsync);
    for (int i = 0; i < kStepsAfter; ++i) runner.step(kStepsBefore + i);
    add_state(at_end, *runner.model, *runner.optimizer);
    runner.checkpointer(dir / "compare").save(1, kAsync);  // ends in its destructor
    checkpoint.wait();
  });
  load_and_train(kFrom, kJob, run, loaded, again);
  on_ranks(kFrom, kJob, [&](Runner& runner) {
    for (int i = 0; i < kStepsBefore; ++i) runner.step(i);
    add_state(at_save, *runner.model, *runner.optimizer);
  });
  CHECK(loaded.difference(at_save) == "");
  CHECK(again.difference(at_end) == "");
  CHECK(steps_in(dir / "compare") == std::vector<int64_t>{1});
}

TEST_CASE("a checkpoint is complete without another call of any rank", "[async][threads]") {
  const TempDir dir;
  on_ranks({ShardingStrategy::fsdp, 3}, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint = runner.checkpointer(dir / "run");
    for (const int64_t step : {1, 2, 3, 4}) {
      checkpoint.save(step, kAsync);
      expect(appears(checkpoint.folder(step) + "/COMPLETE"), "it appears");
    }
    expect(checkpoint.steps() == std::vector<int64_t>{3, 4}, "two are kept");
  });
  for (const auto& [file, bytes] : files_in(dir / "run/checkpoints/step-00000004")) {
    CAPTURE(file);
    CHECK((file.ends_with(".safetensors") || file == "COMPLETE" || file == "trainer_state.json"));
  }
}

TEST_CASE("a rank whose thread cannot write is named on all ranks in the next call",
          "[async][threads]") {
  const TempDir dir;
  const std::string run = dir / "run";
  on_ranks({ShardingStrategy::fsdp, 3}, kJob, [&](Runner& runner) {
    bool on = false;
    dist::Checkpointer checkpoint = runner.checkpointer(run);
    be_in_the_way(checkpoint, run, on);
    checkpoint.save(10, kAsync);
    const std::vector<std::function<void()>> calls = {
        [&] { checkpoint.wait(); }, [&] { checkpoint.save(30); }, [&] { checkpoint.resume(); },
        [&] { checkpoint.load(10); }};
    for (const auto& next : calls) {
      checkpoint.wait();
      on = true;
      checkpoint.save(20, kAsync);
      on = false;
      const std::string error = error_of(next);
      expect(error.find("checkpoint: saving step 20 in the background: write: ") == 0 &&
                 error.find("model-rank-00001-of-00003.safetensors: is a directory") !=
                     std::string::npos &&
                 error.ends_with("(rank 1)"),
             error);
      expect(checkpoint.steps() == std::vector<int64_t>{10}, "the one before is there");
    }
    checkpoint.save(20, kAsync);
    expect(checkpoint.resume() == 20, "and the next save succeeds");
  });
  CHECK(steps_in(run) == std::vector<int64_t>{10, 20});
}

TEST_CASE("a full disk is one error on all ranks and spares the checkpoint before", "[async]") {
  const TempDir dir;
  const std::string run = dir / "run";
  on_ranks({ShardingStrategy::zero2, 2}, kJob, [&](Runner& runner) {
    runner.step(0);
    dist::Checkpointer checkpoint = runner.checkpointer(run);
    checkpoint.save(1);
    std::unique_ptr<SmallDisk> disk;
    if (runner.world.rank() == 0) disk = std::make_unique<SmallDisk>(500);
    runner.world.barrier();
    checkpoint.save(2, kAsync);
    const std::string error = error_of([&] { checkpoint.wait(); });
    disk.reset();
    expect(error.find("saving step 2 in the background") != std::string::npos &&
               error.find("File too large") != std::string::npos,
           error);
    expect(checkpoint.resume(nn::Resume::newest_intact) == 1, "the one before is intact");
  });
}

TEST_CASE("ranks that leave by an exception leave no half checkpoint", "[async][threads]") {
  const TempDir dir;
  const std::string run = dir / "run";
  for (const bool all : {true, false}) {
    CAPTURE(all);
    const auto errors = errors_of(3, [&](dist::Communicator& world) {
      Runner runner(world, {ShardingStrategy::fsdp, 3}, kJob);
      dist::Checkpointer checkpoint = runner.checkpointer(run);
      int64_t step = checkpoint.resume().value_or(0);
      checkpoint.save(++step);
      checkpoint.save(++step, kAsync);
      if (all || world.rank() == 1) fail("the loss is NaN");
      world.barrier();
    });
    CHECK_THAT(errors[1], ContainsSubstring("the loss is NaN"));
    on_ranks({ShardingStrategy::fsdp, 3}, kJob, [&](Runner& runner) {
      dist::Checkpointer checkpoint = runner.checkpointer(run);
      const int64_t step = checkpoint.resume(nn::Resume::newest).value_or(0);
      expect(step > 0, "what is complete is intact");
      checkpoint.save(step + 1);
    });
    for (const auto& entry : fs::directory_iterator(run + "/checkpoints")) {
      CHECK(entry.path().extension() == "");  // nothing unfinished is left
    }
  }
}

TEST_CASE("ranks of which some save in the background are an error on all", "[async]") {
  const TempDir dir;
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    int64_t number = 1;
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("number", number);
    checkpoint.save(1, {.async = world.rank() == 1});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("ranks are at different steps: 1 (rank 0); 1 in the "
                                        "background (rank 1)"));
  }
  CHECK(dir.entries() == 0);
}

TEST_CASE("a rank in the background takes its states once more", "[async][threads]") {
  const TempDir dir;
  on_ranks({ShardingStrategy::fsdp, 3}, kJob, [&](Runner& runner) {
    runner.step(0);
    int64_t bytes = 0;
    for (const auto& entry : runner.optimizer->state_dict()) bytes += entry.array.nbytes();
    for (const Tensor& p : runner.model->parameters()) bytes += p.array().nbytes();
    Ledger& ledger = current_ledger();
    dist::Checkpointer checkpoint = runner.checkpointer(dir / "run");
    const int64_t before = ledger.live(MemoryTag::other);
    ledger.reset_peak();
    checkpoint.save(1, kAsync);
    checkpoint.wait();
    expect(ledger.live(MemoryTag::other) == before, "it is given back");
    expect(ledger.peak(MemoryTag::other) - before == bytes,
           "and is no more than that: ", ledger.peak(MemoryTag::other) - before, " of ", bytes);
  });
}
