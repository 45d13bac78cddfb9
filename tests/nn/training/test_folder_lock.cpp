// Two processes and one folder.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/fork.h"
#include "support/temp_dir.h"

#include <hero/core/error.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/folder_lock.h>
#include <hero/nn/training/lock_patience.h>
#include <hero/nn/training/metrics.h>

using Catch::Matchers::ContainsSubstring;
using hero::test::error_of;
using hero_test::Child, hero_test::slurp, hero_test::TempDir;
namespace fs = std::filesystem;
namespace nn = hero::nn;

namespace {

constexpr const char* kCheckpoints = "a process that saves a checkpoint and stays";
constexpr const char* kMetrics = "a process that writes metrics and stays";
constexpr nn::CheckpointerOptions kAtOnce{.keep = 0, .patience_seconds = 0.0};

}  // namespace

TEST_CASE(kCheckpoints, "[.child]") {
  if (Child::argument() == nullptr) return;
  nn::Checkpointer checkpoint(Child::argument(), {.keep = 0});
  (void)checkpoint.resume();
  checkpoint.save(5);
  Child::report();
  checkpoint.save(7);
  Child::report();
}

TEST_CASE(kMetrics, "[.child]") {
  if (Child::argument() == nullptr) return;
  nn::MetricsWriter metrics(Child::argument());
  metrics.write(1, {{"loss", 1.0}});
  Child::report();
}

TEST_CASE("a second process is kept out of a run, by name, until the first has ended",
          "[process]") {
  const TempDir dir;
  const std::string run = dir / "run";
  const Child first(kCheckpoints, run);
  REQUIRE(first.arrives());
  nn::Checkpointer checkpoint(run, kAtOnce);
  const std::string holder = slurp(run + "/LOCK");
  CHECK_THAT(holder, ContainsSubstring("process ") && ContainsSubstring(" on "));
  const std::string named = run + " is in use by " + holder.substr(0, holder.size() - 1);
  CHECK_THAT(error_of([&] { checkpoint.save(6); }), ContainsSubstring(named));
  CHECK_THAT(error_of([&] { checkpoint.resume(); }), ContainsSubstring(named));
  CHECK_THAT(error_of([&] { checkpoint.resume(nn::Resume::no); }), ContainsSubstring(named));
  CHECK_THAT(error_of([&] { nn::MetricsWriter(run, {.patience_seconds = 0.0}); }),
             ContainsSubstring(named));
  // Reading goes on beside the writer.
  CHECK(checkpoint.steps() == std::vector<int64_t>{5});
  checkpoint.load(5);
  first.go_on();
  REQUIRE(first.arrives());
  CHECK(checkpoint.steps() == std::vector<int64_t>{5, 7});
  CHECK_FALSE(fs::exists(run + "/checkpoints/step-00000006"));
}

TEST_CASE("a writer waits for one that is just ending, however it ends", "[process]") {
  const TempDir dir;
  const std::string run = dir / "run";
  Child first(kCheckpoints, run);
  REQUIRE(first.arrives());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first.signal(SIGKILL);
  });
  nn::Checkpointer checkpoint(run, {.patience_seconds = 600.0});  // the kill comes long before
  CHECK(checkpoint.resume() == 5);
  checkpoint.save(6);
  killer.join();
  CHECK(checkpoint.steps() == std::vector<int64_t>{5, 6});
}

TEST_CASE("a run whose writer is on a lost host is taken over by removing LOCK, as the error says",
          "[process]") {
  const TempDir dir;
  const std::string run = dir / "run";
  Child first(kCheckpoints, run);
  REQUIRE(first.arrives());
  nn::Checkpointer checkpoint(run, kAtOnce);
  CHECK_THAT(error_of([&] { checkpoint.resume(); }), !ContainsSubstring("lost"));  // it lives here
  hero_test::spill(run + "/LOCK", "process 17 on node-1\n");
  CHECK_THAT(error_of([&] { checkpoint.resume(); }),
             ContainsSubstring("is in use by process 17 on node-1; wait until it has ended") &&
                 ContainsSubstring("; if node-1 is lost for good, remove " + run +
                                   "/LOCK, and the run is yours"));
  fs::remove(run + "/LOCK");
  CHECK(checkpoint.resume() == 5);
  checkpoint.save(6);
  // The other one was not lost after all: it is told so, and writes nothing.
  first.go_on();
  CHECK(first.wait() != 0);
  CHECK(checkpoint.steps() == std::vector<int64_t>{5, 6});
  checkpoint.save(8);
}

TEST_CASE("a program that was started again waits for a writer on another host, not for one here",
          "[process]") {
  const TempDir dir;
  const std::string run = dir / "run";
  Child first(kCheckpoints, run);
  REQUIRE(first.arrives());
  nn::wait_for_other_hosts(600);  // the kill comes long before
  nn::Checkpointer checkpoint(run, kAtOnce);
  CHECK_THAT(error_of([&] { checkpoint.resume(); }), ContainsSubstring("is in use by"));
  hero_test::spill(run + "/LOCK", "process 17 on node-1\n");
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first.signal(SIGKILL);
  });
  CHECK(checkpoint.resume() == 5);
  killer.join();
  nn::wait_for_other_hosts(0);
}

TEST_CASE("what a writer is just doing is not undone by a reader", "[process]") {
  const TempDir dir;
  const std::string run = dir / "run", root = run + "/checkpoints/";
  nn::Checkpointer reader(run, kAtOnce);
  {
    const Child first(kCheckpoints, run);
    REQUIRE(first.arrives());
    fs::rename(root + "step-00000005", root + "step-00000005.old");  // as in a save of step 5
    CHECK(reader.steps().empty());
    CHECK(fs::exists(root + "step-00000005.old"));
  }
  CHECK(reader.steps() == std::vector<int64_t>{5});  // nobody is there to finish it
}

TEST_CASE("metrics have one writing process too", "[process]") {
  const TempDir dir;
  const std::string run = dir / "run";
  {
    const Child first(kMetrics, run);
    REQUIRE(first.arrives());
    CHECK_THROWS_WITH(nn::MetricsWriter(run, {.resumed_step = 1, .patience_seconds = 0.05}),
                      ContainsSubstring("metrics: " + run + " is in use by process "));
    CHECK_THROWS_WITH(nn::Checkpointer(run, kAtOnce).save(1), ContainsSubstring("is in use by"));
  }
  nn::MetricsWriter(run, {.resumed_step = 1}).write(2, {{"loss", 0.5}});
  CHECK_THAT(slurp(run + "/metrics.jsonl"), ContainsSubstring("\"step\":2"));
}

TEST_CASE("one process may have several objects over a folder, and gives it up with the last") {
  const TempDir dir;
  const std::string folder = dir / "run";
  auto a = nn::FolderLock::take("test", folder, 0.0);
  auto b = nn::FolderLock::take("test", folder, 0.0);
  CHECK(a == b);
  CHECK(nn::FolderLock::attempt(folder) == a);
  const auto child_gets_it = [&] {  // forked: it has the descriptors, but is another process
    const pid_t child = ::fork();
    if (child == 0) ::_exit(nn::FolderLock::attempt(folder) != nullptr ? 0 : 1);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
  };
  CHECK_FALSE(child_gets_it());
  a.reset();
  CHECK_FALSE(child_gets_it());
  b.reset();
  CHECK(child_gets_it());
  CHECK(nn::FolderLock::attempt(dir / "missing") == nullptr);
}

TEST_CASE("a child that lives on does not keep its parent's lock, and cannot give it up") {
  const TempDir dir;
  const std::string folder = dir / "run";
  auto lock = nn::FolderLock::take("test", folder, 0.0);
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    lock.reset();
    char byte = 0;
    ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes the other end
  }
  const auto other_gets_it = [&] {
    return hero_test::run_forked([&] {
             if (!nn::FolderLock::attempt(folder)) throw std::runtime_error("it is in use");
           }) == 0;
  };
  CHECK_FALSE(other_gets_it());
  lock.reset();
  CHECK(other_gets_it());
  ::close(gate[0]);
  ::close(gate[1]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a forked child does not write into the run that its parent writes", "[process]") {
  const TempDir dir;
  nn::Checkpointer checkpoint(dir / "run", kAtOnce);
  checkpoint.save(1);
  CHECK(hero_test::run_forked([&] {
          hero::check(error_of([&] { checkpoint.save(2); }).find("is in use by process") !=
                          std::string::npos,
                      "the child saved");
        }) == 0);
  checkpoint.save(3);
  CHECK(checkpoint.steps() == std::vector<int64_t>{1, 3});
}

TEST_CASE("a folder that nobody may write to can be read") {
  if (::geteuid() == 0) return;  // may write everywhere
  const TempDir dir;
  const std::string run = dir / "run";
  int64_t number = 5;
  {
    nn::Checkpointer checkpoint(run);
    checkpoint.track("number", number);
    checkpoint.save(1);
  }
  fs::remove(run + "/LOCK");
  fs::permissions(run, fs::perms::owner_read | fs::perms::owner_exec);
  nn::Checkpointer checkpoint(run);
  checkpoint.track("number", number);
  CHECK(checkpoint.resume() == 1);
  CHECK_THROWS_WITH(checkpoint.save(2), ContainsSubstring("LOCK"));
  fs::permissions(run, fs::perms::owner_all);
}
