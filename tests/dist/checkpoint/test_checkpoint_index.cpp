// The index of a checkpoint: which file holds what, so that ranks open what they need.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>
#include <sys/inotify.h>
#include <unistd.h>

#include <hero/dist/checkpoint/manifest.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/file_digest.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;

namespace {

constexpr Job kJob = {Subject::mlp, Method::adamw};

// How often each file of a folder is opened while it lives.
class Opens {
 public:
  explicit Opens(const std::string& folder) : fd_(inotify_init1(IN_NONBLOCK)) {
    // with the closes, or the system makes one event of two opens
    REQUIRE(fd_ >= 0);
    REQUIRE(inotify_add_watch(fd_, folder.c_str(), IN_OPEN | IN_CLOSE) >= 0);
    thread_ = std::thread([this] {
      while (!over_) read_some();
      read_some();
    });
  }
  ~Opens() {
    counts();
    close(fd_);
  }
  std::map<std::string, int> counts() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return counts_;
  }

 private:
  void read_some() {
    alignas(inotify_event) std::array<char, 65536> buffer{};
    const ssize_t bytes = read(fd_, buffer.data(), buffer.size());
    if (bytes <= 0) return std::this_thread::yield();
    for (ssize_t at = 0; at < bytes;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* const name = buffer.data() + at + sizeof(event);
      if ((event.mask & IN_OPEN) != 0 && event.len > 0) ++counts_[name];
      at += static_cast<ssize_t>(sizeof(event) + event.len);
    }
  }

  int fd_;
  std::atomic<bool> over_ = false;
  std::map<std::string, int> counts_;
  std::thread thread_;
};

std::map<std::string, int> opens_of_resume(const Stand& from, const Stand& to) {
  const TempDir dir;
  Whole saved, loaded;
  train_and_save(from, kJob, dir / "run", saved);
  Opens opens(dir / "run/checkpoints/step-00000003");
  on_ranks(to, kJob, [&](Runner& runner) {
    runner.spoil();
    runner.checkpointer(dir / "run").resume();
    add_state(loaded, *runner.model, *runner.optimizer);
  });
  CHECK(saved.difference(loaded) == "");
  return opens.counts();
}

// The checkpoint's manifest with a change, and what belongs to it anew.
template <class Change>
void change_manifest(const std::string& folder, const Change& change) {
  auto all = nlohmann::json::parse(slurp(folder + "/trainer_state.json"));
  change(all);
  spill(folder + "/trainer_state.json", all.dump());
  const auto digest = nn::digest_file(folder + "/trainer_state.json");
  spill(folder + "/COMPLETE", "trainer_state.json " + std::to_string(digest.bytes) +
                                  " bytes crc32c " + nn::checkpoints::hex(digest.crc32c) + "\n");
}

std::string error_of_resume(const std::string& run, int ranks) {
  std::string error;
  on_ranks({ShardingStrategy::fsdp, ranks}, kJob, [&](Runner& runner) {
    try {
      runner.checkpointer(run).resume();
    } catch (const Error& e) {
      if (runner.world.rank() == 0) error = e.what();
    }
  });
  return error;
}

}  // namespace

// Its own two, and the optimizer's numbers and options, which are in rank 0's.
TEST_CASE("as many ranks as saved read three files each at most to resume") {
  for (const int ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    int files = 0;
    for (const auto& [name, count] :
         opens_of_resume({ShardingStrategy::fsdp, ranks}, {ShardingStrategy::fsdp, ranks})) {
      CAPTURE(name, count);
      if (!name.ends_with(".safetensors")) continue;
      ++files;
      const bool numbers = name.starts_with("optimizer-rank-00000");
      CHECK(count <= (numbers ? 1 + ranks : 2));  // once to check its hash
    }
    CHECK(files == 2 * ranks);  // a file of the model and one of the optimizer of each rank
  }
}

TEST_CASE("other numbers of ranks open only files that hold what they want") {
  // a third rank's part lies in two or three files of eight
  for (const auto& [name, count] :
       opens_of_resume({ShardingStrategy::zero3, 8}, {ShardingStrategy::zero1, 3})) {
    CAPTURE(name, count);
    if (name.ends_with(".safetensors")) CHECK(count <= 1 + 3);
  }
}

TEST_CASE("a checkpoint without an index is read by the headers of its files") {
  const TempDir dir;
  const std::string run = dir / "run", folder = run + "/checkpoints/step-00000003";
  Whole saved, loaded, at_end;
  train_and_save({ShardingStrategy::fsdp, 3}, kJob, run, saved);
  int parts = 0;
  change_manifest(folder, [&](nlohmann::json& all) {
    for (auto& [name, file] : all["files"].items()) parts += static_cast<int>(file.erase("parts"));
  });
  CHECK(parts == 6);
  load_and_train({ShardingStrategy::zero2, 2}, kJob, run, loaded, at_end);
  CHECK(saved.difference(loaded) == "");
}

TEST_CASE("an index that does not say what the files hold is an error and nothing is loaded") {
  const TempDir dir;
  const std::string run = dir / "run", folder = run + "/checkpoints/step-00000003";
  Whole saved;
  train_and_save({ShardingStrategy::fsdp, 2}, kJob, run, saved);
  const std::string good = slurp(folder + "/trainer_state.json");
  const auto fails = [&](const std::string& from, const std::string& to, const std::string& says) {
    CAPTURE(from, to);
    change_manifest(folder, [&](nlohmann::json& all) {
      std::string text = good;
      const size_t at = text.find(from);
      REQUIRE(at != std::string::npos);
      all = nlohmann::json::parse(text.replace(at, from.size(), to));
    });
    CHECK_THAT(error_of_resume(run, 2), ContainsSubstring(says));
  };
  const std::string part = [&] {  // of the model's first file
    const auto all = nlohmann::json::parse(good);
    return all["files"]["model-rank-00000-of-00002.safetensors"]["parts"]["fc1.weight"]
        .get<std::string>();
  }();
  REQUIRE(part.starts_with("float32 "));
  const std::string rest = part.substr(8);
  fails(part, "bfloat16 " + rest, "fc1.weight");
  fails(part, "float33 " + rest, "the part of 'fc1.weight' is not 'float33");
  fails(part, "float32", "the part of 'fc1.weight' is not 'float32'");
  fails(part, "float32 12@", "the part of 'fc1.weight' is not");
  fails(part, "float32 99999999999@0 of 99999999999", "cannot hold 99999999999");
  fails("\"fc1.weight\"", "\"fc9.weight\"", "the parts of 'fc1.weight' leave a hole");
  // the same parts in the other order of files: each is looked for where it does not lie
  change_manifest(folder, [&](nlohmann::json& all) {
    all = nlohmann::json::parse(good);
    std::swap(all["files"]["model-rank-00000-of-00002.safetensors"]["parts"],
              all["files"]["model-rank-00001-of-00002.safetensors"]["parts"]);
  });
  CHECK_THAT(error_of_resume(run, 2), ContainsSubstring("elements of '"));
  change_manifest(folder, [&](nlohmann::json& all) { all = nlohmann::json::parse(good); });
  CHECK(error_of_resume(run, 2) == "");
}
