// Checkpoints that cannot be read, for whatever reason, and what is done with them.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <sys/stat.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/file_digest.h>

using Catch::Matchers::ContainsSubstring;
using hero::nn::Checkpointer, hero::nn::Resume;
using hero::test::error_of;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;
namespace checkpoints = hero::nn::checkpoints;
namespace fs = std::filesystem;

namespace {

// A run of one number and one object.
struct Run {
  int64_t number = 0;
  double loss = 0.5;
  hero::core::Array values = hero::core::Array::full({3}, 1.0);
  Checkpointer checkpoint;

  explicit Run(const std::string& folder, int keep = 0) : checkpoint(folder, {.keep = keep}) {
    checkpoint.track("number", number);
    checkpoint.track("loss", loss);
    checkpoint.track(
        "values",
        [this] {
          return Checkpointer::StateDict{{"v", values}};
        },
        [this](const Checkpointer::StateDict& dict) { values = dict.at(0).array; });
  }
  void save(int64_t step) {
    number = step;
    checkpoint.save(step);
  }
};

void save_run(const std::string& folder, std::vector<int64_t> steps) {
  Run run(folder);
  for (const int64_t step : steps) run.save(step);
}

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> list;
  for (const auto& entry : fs::directory_iterator(folder)) {
    list.push_back(entry.path().filename().string());
  }
  std::sort(list.begin(), list.end());
  return list;
}

// COMPLETE anew, as somebody writes it who knows the format.
void sign(const std::string& folder) {
  const auto digest = hero::nn::digest_file(folder + "/trainer_state.json");
  spill(folder + "/COMPLETE", "trainer_state.json " + std::to_string(digest.bytes) +
                                  " bytes crc32c " + checkpoints::hex(digest.crc32c) + "\n");
}

struct Obstacle {
  const char* name;
  std::function<void(const std::string&)> put;
};

const std::vector<Obstacle>& obstacles() {
  static const std::vector<Obstacle> all{
      {"folder", [](const std::string& path) { fs::create_directory(path); }},
      {"full folder", [](const std::string& path) { fs::create_directories(path + "/more"); }},
      {"pipe", [](const std::string& path) { ::mkfifo(path.c_str(), 0600); }},
      {"link loop", [](const std::string& path) { fs::create_symlink(path, path); }},
      {"link to nothing", [](const std::string& path) { fs::create_symlink(path + "?", path); }},
      {"link to a device", [](const std::string& path) { fs::create_symlink("/dev/zero", path); }},
      {"memory of a process",  // an error of reading, not of opening
       [](const std::string& path) { fs::create_symlink("/proc/self/mem", path); }},
      {"nobody's file",
       [](const std::string& path) {
         spill(path, "x");
         ::chmod(path.c_str(), 0);
       }},
      {"empty file", [](const std::string& path) { spill(path, ""); }},
      {"a terabyte of nothing",
       [](const std::string& path) {
         spill(path, "x");
         fs::resize_file(path, uint64_t{1} << 40);
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("a run goes back past whatever cannot be read, and keeps it") {
  const std::string file = GENERATE("values.safetensors", "trainer_state.json", "COMPLETE");
  for (const Obstacle& obstacle : obstacles()) {
    // What is not there is not complete: no checkpoint at all.
    if (obstacle.name == std::string("link to nothing") && file == "COMPLETE") continue;
    CAPTURE(file, obstacle.name);
    const TempDir dir;
    save_run(dir / "run", {10, 20});
    const std::string folder = dir / "run/checkpoints/step-00000020", path = folder + "/" + file;
    fs::remove(path);
    obstacle.put(path);

    Run strict(dir / "run");
    const std::string error = error_of([&] { strict.checkpoint.resume(); });
    CHECK_THAT(error, ContainsSubstring(folder) && ContainsSubstring("newest_intact"));
    CHECK_THAT(error_of([&] { strict.checkpoint.load(20); }), ContainsSubstring(folder));
    CHECK(strict.number == 0);

    Run run(dir / "run");
    REQUIRE(run.checkpoint.resume(Resume::newest_intact) == 10);
    CHECK(run.number == 10);
    run.save(20);  // the very step that is damaged
    CHECK(run.checkpoint.steps() == std::vector<int64_t>{10, 20});
    CHECK(names(dir / "run/checkpoints") ==
          std::vector<std::string>{"step-00000010", "step-00000020", "step-00000020.damaged"});
    CHECK(fs::symlink_status(folder + ".damaged/" + file).type() != fs::file_type::not_found);
    Run again(dir / "run");
    CHECK(again.checkpoint.resume() == 20);
  }
}

TEST_CASE("a checkpoint's folder that cannot be opened is passed over too") {
  const TempDir dir;
  save_run(dir / "run", {10, 20});
  const std::string folder = dir / "run/checkpoints/step-00000020";
  fs::remove_all(folder);
  SECTION("a link loop") { fs::create_symlink(folder, folder); }
  SECTION("no rights") {
    if (::geteuid() == 0) return;  // may open everything
    fs::create_directory(folder);
    ::chmod(folder.c_str(), 0);
  }
  Run run(dir / "run");
  CHECK_THROWS_WITH(run.checkpoint.resume(), ContainsSubstring(folder));
  REQUIRE(run.checkpoint.resume(Resume::newest_intact) == 10);
  run.save(20);
  CHECK(run.checkpoint.steps() == std::vector<int64_t>{10, 20});
}

TEST_CASE("where no checkpoint is intact the run does not begin anew, and nothing is removed") {
  const TempDir dir;
  save_run(dir / "run", {3, 6, 9});
  const std::string root = dir / "run/checkpoints";
  for (const char* step : {"/step-00000003", "/step-00000006", "/step-00000009"}) {
    spill(root + step + "/values.safetensors", slurp(root + step + "/values.safetensors") + "x");
  }
  const auto before = names(root);
  Run run(dir / "run", 1);
  CHECK_THROWS_WITH(run.checkpoint.resume(Resume::newest_intact),
                    ContainsSubstring("none of the 3 checkpoints in " + root + " is intact") &&
                        ContainsSubstring("begin anew"));
  CHECK_THROWS_WITH(run.checkpoint.save(3), ContainsSubstring("checkpoints of another run"));
  CHECK(names(root) == before);
  fs::rename(root, dir / "elsewhere");  // the way out that the error names
  CHECK_FALSE(run.checkpoint.resume(Resume::newest_intact).has_value());
  run.save(3);
  CHECK(run.checkpoint.steps() == std::vector<int64_t>{3});
}

TEST_CASE("with keep 0 nothing is ever removed") {
  const TempDir dir;
  save_run(dir / "run", {100000000});
  const std::string root = dir / "run/checkpoints";
  Run(dir / "other").checkpoint.save(3);
  fs::rename(dir / "other/checkpoints/step-00000003", root + "/step-00000003");
  Run run(dir / "run", 0);
  run.checkpoint.load(3);
  for (int64_t step = 4; step < 12; ++step) run.save(step);
  CHECK(run.checkpoint.steps().size() == 9);
  CHECK(fs::exists(root + "/step-100000000.abandoned/COMPLETE"));
  // A second one of that name has a number, and both can be put back by renaming.
  run.save(100000000);
  run.save(12);
  CHECK(fs::exists(root + "/step-100000000.abandoned-2/COMPLETE"));
  fs::rename(root + "/step-100000000.abandoned", root + "/step-100000000");
  Run back(dir / "run");
  CHECK(back.checkpoint.resume() == 100000000);
  CHECK(back.number == 100000000);
}

TEST_CASE("what a state file says is checked before it is believed") {
  const TempDir dir;
  save_run(dir / "run", {10, 20});
  const std::string folder = dir / "run/checkpoints/step-00000020";
  const std::string good = slurp(folder + "/trainer_state.json");
  spill(dir / "secret", "secret");
  struct Forgery {
    std::string from, to, said;
  };
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  const std::vector<Forgery> forgeries{
      {"\"values\"", "\"../../../secret\"", "is no name"},
      {"\"values\"", "\"/etc/passwd\"", "is no name"},
      {"\"values\"", "\"..\"", "is no name"},
      {"\"values\"", "\"v\\u001b[31m\"", "is no name"},
      {"\"bytes\": ", "\"bytes\": 1.8e24, \"b\": ", "the size of values is 1.8e+24"},
      {"\"bytes\": ", "\"bytes\": -1, \"b\": ", "the size of values is -1"},
      {"\"bytes\": ", "\"bytes\": 1.5, \"b\": ", "the size of values is 1.5"},
      {"\"bytes\": ", "\"b\": ", "it has no 'bytes'"},
      {"\"crc32c\": \"", "\"crc32c\": \"-", "not eight hexadecimal digits"},
      {"\"crc32c\": \"", "\"crc32c\": \"00", "not eight hexadecimal digits"},
      {"\"number\": 20", "\"number\": 1e300", "number is 1e+300"},
      {"\"number\": 20", "\"number\": 18446744073709551615", "number is 18446744073709551615"},
      {"\"number\": 20", "\"number\": null", "number is null"},
      {"\"loss\": 0.5", "\"loss\": []", "loss is [], not a text"},
      {"\"loss\": 0.5", "\"loss\": \"many\"", "not a number: many"},
      {"\"seed\": ", "\"seed\": -7, \"s\": ", "the seed of default is -7"},
      {"\"offset\": ", "\"offset\": 1e30, \"s\": ", "the offset of default is 1e+30"},
      {"\"step\": 20", "\"step\": 2e1", "the step is 20.0"},
      {"\"step\": 20", "\"step\": 21", "it is of step 21"},
      {"hero checkpoint 1", "hero checkpoint 2", "the format is \"hero checkpoint 2\""},
      {"\"files\": {", "\"files\": [], \"f\": {", "'files' is [], not an object"},
      {"\"integers\": {", "\"deep\": " + deep + ", \"integers\": {", "more than 100 brackets"},
      {"{", "", "not JSON"},
  };
  for (const auto& [from, to, said] : forgeries) {
    CAPTURE(to.substr(0, 100));
    std::string text = good;
    REQUIRE(text.find(from) != text.npos);
    text.replace(text.find(from), from.size(), to);
    spill(folder + "/trainer_state.json", text);
    sign(folder);
    Run run(dir / "run");
    const std::string error = error_of([&] { run.checkpoint.resume(); });
    CHECK_THAT(error, ContainsSubstring(said));
    CHECK(error.find('\x1b') == error.npos);
    CHECK(error.size() < 1000);
    CHECK(run.number == 0);
    CHECK(run.checkpoint.resume(Resume::newest_intact) == 10);
  }
  spill(folder + "/trainer_state.json", good);
  sign(folder);
  CHECK(Run(dir / "run").checkpoint.resume() == 20);
}

TEST_CASE("a folder of checkpoints that cannot be listed is one Error") {
  const TempDir dir;
  fs::create_directory(dir / "run");
  SECTION("a file") { spill(dir / "run/checkpoints", "x"); }
  SECTION("a link loop") { fs::create_symlink(dir / "run/checkpoints", dir / "run/checkpoints"); }
  Run run(dir / "run");
  CHECK_THROWS_AS(run.checkpoint.steps(), hero::Error);
  CHECK_THROWS_AS(run.checkpoint.resume(Resume::newest_intact), hero::Error);
  CHECK_THROWS_AS(run.checkpoint.load(1), hero::Error);
  CHECK_THROWS_AS(run.checkpoint.save(1), hero::Error);
}
