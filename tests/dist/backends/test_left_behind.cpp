// What runs that fail leave in their process: no threads, no open files, no memory that is shared,
// no unfinished files, and no calls that wait for ever.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/checkpoints.h"
#include "dist/parallel/stack.h"
#include "support/catch.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"
#include <unistd.h>

#include <hero/core/swap_file.h>
#include <hero/core/thread_pool.h>
#include <hero/dist/dist.h>
#include <hero/optim/paged.h>

namespace {

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring, Catch::Matchers::EndsWith;
using dist::Communicator, dist::Work;
using hero_test::SmallDisk, hero_test::TempDir;
namespace fs = std::filesystem;

Array some_array(int64_t n = 4) { return Array::ones({n}); }

// What this process has of the system.
struct Possessions {
  std::vector<std::string> files;   // that are open
  std::vector<std::string> shared;  // mappings
  int threads = 0;

  static Possessions now() {
    Possessions mine;
    std::vector<fs::path> links;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) links.push_back(entry);
    for (const fs::path& link : links) {
      std::error_code closed;  // that of the folder itself is by now
      const fs::path file = fs::read_symlink(link, closed);
      if (!closed) mine.files.push_back(file.string());
    }
    std::sort(mine.files.begin(), mine.files.end());
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t access = line.find(' ') + 1;
      if (line[access + 3] == 's') mine.shared.push_back(line);
    }
    for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
      mine.threads += !thread.path().empty();
    }
    return mine;
  }
};

// Runs that fail, some times each, and nothing is left of them.
void check_nothing_is_left(const std::function<void()>& failing_run) {
  const ThreadLimit one(1);  // the threads of kernels are there for good
  failing_run();             // what is made once in a process is made
  const Possessions before = Possessions::now();
  for (int i = 0; i < 3; ++i) failing_run();
  const Possessions after = Possessions::now();
  CHECK(after.files == before.files);
  CHECK(after.shared == before.shared);
  CHECK(after.threads == before.threads);
}

void check_no_unfinished_file(const TempDir& dir) {
  for (const auto& entry : fs::recursive_directory_iterator(dir / "")) {
    CHECK(entry.path().string().find(".tmp") == std::string::npos);
  }
}

// Whether one of the ranks has said so.
bool one_says(const std::vector<std::string>& errors, const std::string& what) {
  return std::any_of(errors.begin(), errors.end(), [&](const std::string& error) {
    return error.find(what) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("ranks that fail in a collective leave nothing behind", "[dist][threads]") {
  check_nothing_is_left([] {
    const auto thrown = errors_of(3, [](Communicator& world) {
      const Communicator pair = world.split(world.rank() / 2, 0);
      const Array x = some_array(), y = some_array();
      Work first = world.all_reduce(x, {.async = true});
      Work second = pair.all_reduce(y, {.async = true});
      if (world.rank() == 1) fail("stop");
      world.barrier();
    });
    CHECK(thrown[1] == "stop");
    CHECK_THAT(thrown[0], ContainsSubstring("rank 1 failed"));
    const auto differ =
        errors_of(3, [](Communicator& world) { world.all_reduce(some_array(world.rank() + 1)); });
    CHECK_THAT(differ[2], ContainsSubstring("every rank must make the same calls"));
    const auto locked = errors_of(2, [](Communicator& world) {
      const Array x = some_array();
      world.recv(x, 1 - world.rank());
    });
    CHECK_THAT(locked[0], ContainsSubstring("deadlock"));
  });
}

TEST_CASE("ranks that are given up after a time-out leave nothing behind", "[dist][timeouts]") {
  check_nothing_is_left([] {
    std::atomic<bool> done{false};
    const auto errors = errors_of(2,
                                  [&](Communicator& world) {
                                    const Array x = some_array();
                                    Work work = world.all_reduce(x, {.async = true});
                                    if (world.rank() == 1) return done.wait(false);
                                    try {
                                      world.barrier();
                                    } catch (...) {
                                      done = true;
                                      done.notify_all();
                                      throw;
                                    }
                                  },
                                  {.timeout = 0.02, .timeout_join = 0.02});
    CHECK_THAT(errors[0], ContainsSubstring("time-out"));
  });
}

TEST_CASE("checkpoints that cannot be written leave nothing behind", "[dist][checkpoint]") {
  for (const bool async : {false, true}) {
    CAPTURE(async);
    const TempDir dir;
    check_nothing_is_left([&] {
      const SmallDisk disk(500);
      const auto errors = errors_of(3, [&](Communicator& world) {
        Runner runner(world, {ShardingStrategy::fsdp, 3}, {Subject::mlp, Method::adamw});
        dist::Checkpointer checkpoint = runner.checkpointer(dir / "run");
        checkpoint.save(1, {.async = async});
        checkpoint.wait();
      });
      CHECK(one_says(errors, "File too large"));
    });
    check_no_unfinished_file(dir);
  }
}

TEST_CASE("ranks that fail while a checkpoint is written leave no thread behind",
          "[dist][checkpoint]") {
  const TempDir dir;
  check_nothing_is_left([&] {
    const auto errors = errors_of(3, [&](Communicator& world) {
      Runner runner(world, {ShardingStrategy::zero2, 3}, {Subject::mlp, Method::adamw});
      dist::Checkpointer checkpoint = runner.checkpointer(dir / "run");
      const int64_t step = checkpoint.resume().value_or(0);
      checkpoint.save(step + 1, {.async = true});
      if (world.rank() == 1) fail("the loss is NaN");
      world.barrier();
    });
    CHECK(errors[1] == "the loss is NaN");
  });
}

TEST_CASE("checkpoints that cannot be loaded leave nothing behind", "[dist][checkpoint]") {
  const TempDir dir;
  Whole saved;
  train_and_save({ShardingStrategy::fsdp, 2}, {Subject::mlp, Method::adamw}, dir / "run", saved);
  for (const auto& entry : fs::recursive_directory_iterator(dir / "run")) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 100);
  }
  check_nothing_is_left([&] {
    const auto errors = errors_of(2, [&](Communicator& world) {
      Runner runner(world, {ShardingStrategy::fsdp, 2}, {Subject::mlp, Method::adamw});
      runner.checkpointer(dir / "run").resume();
    });
    CHECK_THAT(errors[0], ContainsSubstring("checkpoint: "));
  });
}

TEST_CASE("ranks with shards in a file leave neither the file nor its threads", "[dist]") {
  const TempDir dir;
  check_nothing_is_left([&] {
    const auto errors = errors_of(2, [&](Communicator& world) {
      core::SwapFile disk(dir / "", {.bytes = int64_t{1} << 20});
      auto model = make_subject(Subject::mlp);
      climb(ShardingStrategy::fsdp, Subject::mlp, *model, world, dist::Order::tree, 2,
            {.disk = &disk});
      const auto optimizer = make_method(Method::adamw, model->parameters());
      subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
      optimizer->step();
      subject_loss(Subject::mlp, *model, 1, world.rank());
      if (world.rank() == 1) fail("stop");
      world.barrier();
    });
    CHECK(errors[1] == "stop");
    const auto no_room = errors_of(2, [&](Communicator& world) {
      core::SwapFile disk(dir / "", {.bytes = core::SwapFile::kBlock});
      auto model = make_subject(Subject::mlp);
      climb(ShardingStrategy::fsdp, Subject::mlp, *model, world, dist::Order::tree, 2,
            {.disk = &disk});
    });
    CHECK(one_says(no_room, "there is no room"));
    const SmallDisk full(core::SwapFile::kBlock);
    CHECK_THROWS_WITH(core::SwapFile(dir / "", {.bytes = int64_t{1} << 20}),
                      ContainsSubstring("does not give"));
  });
  CHECK(dir.entries() == 0);
}

TEST_CASE("a call that outlives its run, which failed, does not wait", "[dist]") {
  Work waited, asked;
  Communicator kept;
  std::atomic<bool> begun{false};
  errors_of(2, [&](Communicator& world) {
    if (world.rank() == 1) {
      begun.wait(false);
      fail("stop");
    }
    kept = world;
    waited = world.all_reduce(some_array(), {.async = true});
    asked = world.all_reduce(some_array(), {.async = true});
    begun = true;
    begun.notify_one();
    world.barrier();
  });
  const std::string said = ": rank 1 failed, rank 0 cannot go on: stop";
  REQUIRE_THROWS_WITH(asked.test(), EndsWith(said));
  CHECK_THROWS_WITH(waited.wait(), EndsWith(said));
  CHECK_THROWS_WITH(kept.barrier(), EndsWith(said));
}

TEST_CASE("calls on a communicator that outlives its run are refused", "[dist]") {
  std::vector<Communicator> kept(2);
  dist::run_ranks(2, [&](Communicator& world) {
    kept[static_cast<size_t>(world.rank())] = world;
    world.barrier();
  });
  const int64_t before = current_ledger().live();
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(kept[0].all_reduce(some_array(1000)),
                      ContainsSubstring("all_reduce (call 1 of 'world'): the run has ended"));
  }
  CHECK(current_ledger().live() == before);  // and keep no array
}
