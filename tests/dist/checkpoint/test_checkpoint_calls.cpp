// What a save asks of the file system: in proportion to the ranks, and nothing is read back.
#include <string>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/file_calls.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"

#include <hero/core/io/sha256.h>
#include <hero/nn/training/file_digest.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::FileCalls, hero_test::slurp, hero_test::TempDir;
using Kind = FileCalls::Kind;

namespace {

constexpr const char* kUnfinished = ".tmp";  // a folder that is being written has it in its name

// Saves twice, of which the second replaces nothing, and calls `look` with the calls of that one.
template <class Look>
void save_twice(int ranks, bool async, const Look& look) {
  const TempDir dir;
  const std::string run = dir / "run";
  std::unique_ptr<FileCalls> calls;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    Runner runner(world, {ShardingStrategy::fsdp, ranks}, {Subject::mlp, Method::adamw});
    runner.step(0);
    dist::Checkpointer checkpoint = runner.checkpointer(run);
    checkpoint.save(1);
    world.barrier();
    if (world.rank() == 0) calls = std::make_unique<FileCalls>(run);
    world.barrier();
    checkpoint.save(2, {.async = async});
    checkpoint.wait();
    world.barrier();
    if (world.rank() == 0) look(*calls);
  });
  calls.reset();
  // What was hashed while it was written is what lies there.
  int files = 0;
  const std::string folder = run + "/checkpoints/step-00000002/";
  const std::string manifest = slurp(folder + "trainer_state.json");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    CHECK(manifest.find(hash_file(entry.path().string()).sha256) != std::string::npos);
    ++files;
  }
  CHECK(files == 2 * ranks);
}

}  // namespace

TEST_CASE("a save lists no folder and flushes none for each file, and reads none of them",
          "[checkpoint][calls]") {
  for (const bool async : {false, true}) {
    std::ptrdiff_t listed = -1;
    for (const int ranks : {2, 8}) {
      CAPTURE(async, ranks);
      save_twice(ranks, async, [&](const FileCalls& calls) {
        const std::ptrdiff_t notes = async ? ranks - 1 : 0;
        // two files a rank, the state and COMPLETE
        CHECK(calls.count(Kind::write, kUnfinished) == 2 * ranks + 2 + notes);
        CHECK(calls.count(Kind::list, kUnfinished) == 0);
        // each file once, and the folder once
        CHECK(calls.count(Kind::flush, kUnfinished) == 2 * ranks + 2 + notes + 1);
        CHECK(calls.count(Kind::read, ".safetensors") == 0);
        CHECK(calls.count(Kind::read, "trainer_state.json") == 0);
        // the folder of all checkpoints, however many ranks there are
        if (listed < 0) listed = calls.count(Kind::list);
        CHECK(calls.count(Kind::list) == listed);
        CHECK(listed > 0);
      });
    }
  }
}

TEST_CASE(
    "of a disk that is full on many ranks, and of many damaged files, the first eight are named",
    "[checkpoint][calls]") {
  constexpr int kRanks = 12;  // of which ten hold something
  const TempDir dir;
  const std::string run = dir / "run";
  const auto save = [&](dist::Communicator& world) {
    Runner runner(world, {ShardingStrategy::fsdp, kRanks}, {Subject::mlp, Method::adamw});
    runner.step(0);
    runner.checkpointer(run).save(1);
  };
  const auto full_on = [](const std::string& error) {
    size_t files = 0;
    for (size_t at = 0; (at = error.find("cannot write", at)) != std::string::npos; ++at) ++files;
    return files;
  };
  {
    const hero_test::SmallDisk disk(100);
    for (const std::string& error : errors_of(kRanks, save)) {
      CHECK(full_on(error) == 8);
      CHECK_THAT(error, ContainsSubstring("; .. and 2 more"));
    }
  }
  CHECK(std::filesystem::is_empty(run + "/checkpoints"));
  dist::run_ranks(kRanks, save);
  int removed = 0;
  const std::string folder = run + "/checkpoints/step-00000001";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("model-")) continue;
    std::filesystem::remove(entry.path());
    ++removed;
  }
  REQUIRE(removed > 8);
  for (const std::string& error : errors_of(kRanks, [&](dist::Communicator& world) {
         Runner runner(world, {ShardingStrategy::fsdp, kRanks}, {Subject::mlp, Method::adamw});
         runner.checkpointer(run).resume();
       })) {
    CHECK_THAT(error, ContainsSubstring("model-rank-00000-of-00012.safetensors, which rank 0 "
                                        "wrote, is missing; ") &&
                          ContainsSubstring("; .. and " + std::to_string(removed - 8) + " more"));
  }
}

TEST_CASE("one process alone saves so, too", "[checkpoint][calls]") {
  for (const bool async : {false, true}) {
    CAPTURE(async);
    const TempDir dir;
    SmallMLP model;
    optim::AdamW adamw(model.parameters());
    nn::Checkpointer checkpoint(dir / "run");
    checkpoint.track("model", model);
    checkpoint.track("adamw", adamw);
    checkpoint.save(1);
    {
      const FileCalls calls(dir / "run");
      checkpoint.save(2, {.async = async});
      checkpoint.wait();
      CHECK(calls.count(Kind::write, kUnfinished) == 4);
      CHECK(calls.count(Kind::list, kUnfinished) == 0);
      CHECK(calls.count(Kind::flush, kUnfinished) == 5);
      CHECK(calls.count(Kind::read, ".safetensors") == 0);
      CHECK(calls.count(Kind::read, "trainer_state.json") == 0);
    }
    CHECK_NOTHROW(checkpoint.load(2));  // which compares the checksums
  }
}
