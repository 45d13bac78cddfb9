// What restarts are told, before anything is started; tests/scripts/test_restarts starts programs.
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/fork.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"
#include <sched.h>
#include <sys/mount.h>

#include <hero/core/error.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/backends/supervisor.h>
#include <hero/nn/training/lock_patience.h>

using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;
using hero_test::run_forked, hero_test::SmallDisk, hero_test::TempDir;

namespace {

std::vector<std::string> texts_of_slots(const std::string& text) {
  std::vector<std::string> texts;
  for (const Slots& slots : parse_slots(text)) {
    texts.push_back(slots.host + " " + std::to_string(slots.count));
  }
  return texts;
}

// While it lives, where programs put what they need for a while.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& folder) {
    const char* const before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TemporaryFolder() {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::string before_;
};

// For a process with one thread, which has other users and mounts than its parent from then on: a
// full disk of one page at the folder; false where the system does not allow it.
bool mount_full_disk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (::mount("none", folder.c_str(), "tmpfs", 0, "size=4096") != 0) return false;
  std::ofstream(folder + "/full") << std::string(4096, 'x');
  return true;
}

}  // namespace

TEST_CASE("hosts and their slots are read as from a hostfile", "[dist][restarts]") {
  const std::vector<std::string> expected = {"node1 2", "node2 16", "10.0.0.3 1"};
  CHECK(texts_of_slots("# all\n node1 slots=2 # a\n\nnode2:16\n10.0.0.3") == expected);
  CHECK(parse_slots("").empty());
  CHECK_THROWS_WITH(parse_slots("node1 2"), ContainsSubstring("'node1 slots=2', not 'node1 2'"));
  CHECK_THROWS_WITH(parse_slots("node1 slots=2 node2"), ContainsSubstring("'node1 slots=2', not"));
  CHECK_THROWS_WITH(parse_slots("node1:"), ContainsSubstring("no number: ''"));
  CHECK_THROWS_WITH(parse_slots("node1 slots=0"), ContainsSubstring("no number: '0'"));
  CHECK_THROWS_WITH(parse_slots("node1:2x"), ContainsSubstring("no number: '2x'"));
}

TEST_CASE("numbers of ranks are a list", "[dist][restarts]") {
  CHECK(parse_numbers("8,4,1") == std::vector<int>{8, 4, 1});
  CHECK(parse_numbers("3") == std::vector<int>{3});
  for (const char* wrong : {"", "4,", ",4", "4,0", "4 2", "-1", "4,two"}) {
    CHECK_THROWS_WITH(parse_numbers(wrong), ContainsSubstring("--elastic=8,4,2,1"));
  }
}

TEST_CASE("a process with other threads cannot be forked for restarts", "[dist][restarts]") {
  std::promise<void> done;
  std::thread other([&] { done.get_future().wait(); });
  CHECK_THROWS_WITH(supervise("train", {.count = 1}, 2), ContainsSubstring("call launch() first"));
  done.set_value();
  other.join();
}

TEST_CASE("a program that is started again waits longer for the locks of other hosts",
          "[dist][restarts]") {
  const auto patience_of = [](int starts_before) {
    const NoticeFile notices;
    const std::string variable = notices.variable(starts_before);
    const size_t value = variable.find('=') + 1;
    return run_forked([&] {
      ::setenv(variable.substr(0, value - 1).c_str(), variable.substr(value).c_str(), 1);
      if (!hero::dist::join_supervisor()) hero::fail("no supervisor");
      notices->saved = 0;
      hero::dist::tell_saved(6);  // the file is the one that was named
      if (notices->step != 7) hero::fail("another file");
      const double expected = starts_before > 0 ? hero::nn::kLostHostSeconds : 0;
      if (hero::nn::patience_for_other_hosts() != expected) hero::fail("another patience");
    });
  };
  CHECK(patience_of(0) == 0);
  CHECK(patience_of(1) == 0);
  CHECK(patience_of(12) == 0);
}

TEST_CASE("of a supervisor's file that has no room nothing is left", "[dist][restarts]") {
  const TempDir dir;
  const TemporaryFolder here(dir / "");
  {
    const SmallDisk disk(8);
    CHECK_THROWS_WITH(NoticeFile(), ContainsSubstring("let TMPDIR name another folder"));
  }
  CHECK(dir.entries() == 0);
  const NoticeFile notices;
  CHECK(dir.entries() == 1);
}

TEST_CASE("a supervisor on a full disk is told so before it starts anything", "[dist][restarts]") {
  const TempDir dir;
  const TemporaryFolder here(dir / "");
  CHECK(run_forked([&] {
          if (!mount_full_disk(dir / "")) return;
          try {
            NoticeFile notices;
            notices->begun = 0;  // as the supervisor does first
          } catch (const hero::Error&) {
            return;
          }
          hero::fail("a file on a full disk");
        }) == 0);
}
