// Checkpoints that cannot be read, that nobody may remove, that name files elsewhere, and ranks
// that do not agree about what to save.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/autograd.h>
#include <hero/dist/checkpoint/manifest.h>
#include <hero/nn/training/checkpoint_folder.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr Stand kSource = {ShardingStrategy::fsdp, 3}, kTarget = {ShardingStrategy::zero2, 2};
constexpr Job kJob = {Subject::mlp, Method::sgd};

void save_steps(const std::string& run, const std::vector<int64_t>& steps, int keep = 0) {
  on_ranks(kSource, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint(run, runner.world, {.keep = keep});
    checkpoint.track("model", *runner.model);
    checkpoint.track("optimizer", *runner.optimizer);
    runner.step(0);  // so that every rank has states to write
    for (const int64_t step : steps) checkpoint.save(step);
  });
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Every file of a folder with its bytes, by name.
std::vector<std::string> contents(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      all.push_back(entry.path().string() + slurp(entry.path().string()));
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Goes on from what is intact and, where asked, saves two more steps.
int64_t go_on(const std::string& run, nn::Resume which, bool saves, int keep = 2) {
  int64_t step = -1;
  on_ranks(kTarget, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint(run, runner.world, {.keep = keep});
    checkpoint.track("model", *runner.model);
    checkpoint.track("optimizer", *runner.optimizer);
    const int64_t found = checkpoint.resume(which).value_or(-1);
    if (runner.world.rank() == 0) step = found;
    if (!saves) return;
    checkpoint.save(found + 1);
    checkpoint.save(found + 2);
  });
  return step;
}

using Spoil = std::function<void(const std::string& file)>;

const std::vector<std::pair<const char*, Spoil>> kWays = {
    {"a folder in its place",
     [](const std::string& file) {
       fs::remove(file);
       fs::create_directory(file);
       spill(file + "/inside", "x");
     }},
    {"a link to itself",
     [](const std::string& file) {
       fs::remove(file);
       fs::create_symlink(fs::path(file).filename(), file);
     }},
    {"a link to nothing",
     [](const std::string& file) {
       fs::remove(file);
       fs::create_symlink("nowhere", file);
     }},
    {"removed", [](const std::string& file) { fs::remove(file); }},
    {"empty", [](const std::string& file) { spill(file, ""); }},
    {"longer by a byte", [](const std::string& file) { spill(file, slurp(file) + "x"); }},
};

constexpr const char* kFiles[] = {"model-rank-00001-of-00003.safetensors",
                                  "optimizer-rank-00002-of-00003.safetensors",
                                  "trainer_state.json"};

}  // namespace

TEST_CASE("newest_intact goes back past whatever cannot be read, and newest names it") {
  for (const auto& [way, spoil] : kWays) {
    for (const char* file : kFiles) {
      CAPTURE(way, file);
      const TempDir dir;
      const std::string run = dir / "run";
      save_steps(run, {4, 8});
      spoil(run + "/checkpoints/step-00000008/" + file);
      CHECK_THROWS_WITH(go_on(run, nn::Resume::newest, false),
                        ContainsSubstring(file) && ContainsSubstring("newest_intact"));
      CHECK(go_on(run, nn::Resume::newest_intact, false) == 4);
    }
  }
}

TEST_CASE("a checkpoint under another step's name is passed over, too") {
  const TempDir dir;
  const std::string run = dir / "run";
  save_steps(run, {4, 8});
  fs::rename(run + "/checkpoints/step-00000008", run + "/checkpoints/step-00000009");
  CHECK_THROWS_WITH(go_on(run, nn::Resume::newest, false), ContainsSubstring("is of step 8"));
  CHECK(go_on(run, nn::Resume::newest_intact, false) == 4);
}

TEST_CASE("a checkpoint that was passed over is set aside by the next save, and never removed") {
  for (const int keep : {0, 1, 2}) {
    CAPTURE(keep);
    const TempDir dir;
    const std::string run = dir / "run", folder = run + "/checkpoints";
    save_steps(run, {4, 8, 9});
    for (const char* step : {"/step-00000008/", "/step-00000009/"}) {
      const std::string file = folder + step + kFiles[0];
      spill(file, slurp(file) + "x");
    }
    CHECK(go_on(run, nn::Resume::newest_intact, true, keep) == 4);
    const std::vector<std::string> names = names_in(folder);
    const auto there = [&](const char* name) {
      return std::count(names.begin(), names.end(), name) == 1;
    };
    CHECK(there("step-00000008.damaged"));
    CHECK(there("step-00000009.damaged"));
    CHECK(there("step-00000006"));
    CHECK(there("step-00000004") == (keep == 0));
    CHECK(slurp(folder + "/step-00000009.damaged/" + kFiles[0]).back() == 'x');
    CHECK(go_on(run, nn::Resume::newest, false) == 6);
  }
}

TEST_CASE("where no checkpoint is intact the run is refused, and not a byte changes") {
  const TempDir dir;
  const std::string run = dir / "run";
  save_steps(run, {4, 8});
  for (const char* step : {"4", "8"}) {
    const std::string file = run + "/checkpoints/step-0000000" + step + "/" + kFiles[0];
    spill(file, slurp(file) + "x");
  }
  const std::vector<std::string> before = contents(run);
  CHECK_THROWS_WITH(
      go_on(run, nn::Resume::newest_intact, true),
      ContainsSubstring("none of the 2 checkpoints") && ContainsSubstring("nothing was changed"));
  CHECK_THROWS_WITH(go_on(run, nn::Resume::newest, true), ContainsSubstring("damaged"));
  CHECK(contents(run) == before);
}

TEST_CASE("keep = 0 removes no checkpoint, abandoned ones neither") {
  const TempDir dir;
  const std::string run = dir / "run", folder = run + "/checkpoints";
  save_steps(run, {1, 2, 3, 100000000});
  CHECK(names_in(folder).size() == 4);
  on_ranks(kTarget, kJob, [&](Runner& runner) {
    dist::Checkpointer checkpoint(run, runner.world, {.keep = 0});
    checkpoint.track("model", *runner.model);
    checkpoint.track("optimizer", *runner.optimizer);
    checkpoint.load(2);
    checkpoint.save(5);
  });
  const std::vector<std::string> names = names_in(folder);
  CHECK(names == std::vector<std::string>{"step-00000001", "step-00000002", "step-00000003",
                                          "step-00000005", "step-100000000.abandoned"});
  CHECK(go_on(run, nn::Resume::newest, false) == 5);
}

TEST_CASE(
    "ranks that disagree about what to save are an error on all, before anything is written") {
  using Save = std::function<void(dist::Checkpointer&, SmallMLP&, optim::SGD&, int rank)>;
  int64_t number = 3;
  double real = 1.5;
  const std::vector<std::pair<const char*, Save>> ways = {
      {"different steps",
       [](auto& c, auto& m, auto&, int rank) {
         c.track("model", m);
         c.save(rank == 1 ? 4 : 3);
       }},
      {"different steps",
       [](auto& c, auto& m, auto&, int rank) {
         c.track("model", m);
         c.save(rank == 2 ? -1 : 3);
       }},
      {"different things",
       [](auto& c, auto& m, auto&, int rank) {
         c.track(rank == 0 ? "a" : "b", m);
         c.save(1);
       }},
      {"different things",
       [](auto& c, auto& m, auto& o, int rank) {
         c.track("model", m);
         if (rank != 1) c.track("optimizer", o);
         c.save(1);
       }},
      {"different things",
       [](auto& c, auto& m, auto& o, int rank) {
         if (rank == 1) c.track("optimizer", o);
         c.track("model", m);
         if (rank != 1) c.track("optimizer", o);
         c.save(1);
       }},
      {"different things",
       [&](auto& c, auto& m, auto&, int rank) {
         c.track("model", m);
         rank == 2 ? c.track("epoch", number) : c.track("epoch", real);
         c.save(1);
       }},
  };
  for (const auto& [what, save] : ways) {
    CAPTURE(what);
    const TempDir dir;
    const auto errors = errors_of(3, [&, save = save](dist::Communicator& world) {
      SmallMLP model;
      dist::fully_shard(model, world);
      optim::SGD sgd(model.parameters(), {.lr = 0.1});
      dist::Checkpointer checkpoint(dir / "run", world);
      save(checkpoint, model, sgd, world.rank());
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring(what) || ContainsSubstring("at different steps"));
      CHECK_THAT(error, ContainsSubstring("(rank") || ContainsSubstring("rank 0 has"));
    }
    CHECK(dir.entries() == 0);
  }
}

TEST_CASE("ranks whose tracked modules differ are an error on all, before anything is written") {
  const TempDir dir;
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    nn::Linear model(3, world.rank() == 0 ? 2 : 4);
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", model);
    checkpoint.save(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("different modules"));
  }
  CHECK(dir.entries() == 0);
}

TEST_CASE("ranks that resume or load differently are an error on all") {
  const TempDir dir;
  const std::string run = dir / "run";
  save_steps(run, {1, 2});
  for (const bool by_load : {false, true}) {
    const auto errors = errors_of(2, [&](dist::Communicator& world) {
      Runner runner(world, kTarget, kJob);
      dist::Checkpointer checkpoint = runner.checkpointer(run);
      if (by_load) {
        checkpoint.load(world.rank() + 1);
      } else {
        checkpoint.resume(world.rank() == 0 ? nn::Resume::newest : nn::Resume::newest_intact);
      }
    });
    for (const std::string& error : errors) CHECK_THAT(error, ContainsSubstring("(rank 1)"));
  }
}

TEST_CASE("a manifest names files of its folder only, and numbers that are numbers") {
  const TempDir dir;
  const std::string run = dir / "run", folder = run + "/checkpoints/step-00000003";
  save_steps(run, {3});
  const std::string good = slurp(folder + "/trainer_state.json");
  using nlohmann::json;
  const auto parsed = [](const std::string& text) {
    try {
      dist::parse_manifest(text, "the manifest");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(parsed(good) == "");
  for (const char* name :
       {"../model.safetensors", "../../../elsewhere/stolen.safetensors", "/etc/passwd", "a/b", "..",
        ".", "", ".hidden", "a\nb", "a b", "\x1b[2J", "model\\x"}) {
    CAPTURE(name);
    json all = json::parse(good);
    all["files"][name] = all["files"].begin().value();
    CHECK_THAT(parsed(all.dump()), ContainsSubstring("the manifest") &&
                                       ContainsSubstring("a file of a checkpoint has a name of"));
  }
  const auto with = [&](const char* pointer, const json& value) {
    json all = json::parse(good);
    all[json::json_pointer(pointer)] = value;
    return parsed(all.dump());
  };
  const std::string first = "/files/" + std::string(kFiles[0]);
  for (const json& value : std::vector<json>{1.8e24, -1, "12", nullptr, json::array(), true, 1.5}) {
    CAPTURE(value.dump());
    CHECK_THAT(with((first + "/bytes").c_str(), value), ContainsSubstring("bytes"));
    CHECK_THAT(with("/ranks", value), ContainsSubstring("ranks"));
    if (value != json(-1)) CHECK_THAT(with("/step", value), ContainsSubstring("step"));
    CHECK_THAT(with("/generators/default/0/seed", value), ContainsSubstring("seed"));
  }
  for (const char* pointer : {"/files", "/tracked", "/integers", "/numbers", "/generators",
                              "/format", "/generators/default", "/tracked/model"}) {
    CAPTURE(pointer);
    CHECK(with(pointer, 7) != "");
    CHECK(with(pointer, json::array({json::array()})) != "");
  }
  CHECK_THAT(with("/tracked/epoch", "integer"), ContainsSubstring("integer epoch has no value"));
  CHECK_THAT(with("/ranks", 0), ContainsSubstring("ranks is 0"));
  CHECK(parsed("7") != "");
  CHECK(parsed("[]") != "");
  std::string deep = good;
  const std::string nest = std::string(200000, '[') + std::string(200000, ']');
  deep.replace(deep.find("\"hero sharded checkpoint 1\""), 27, nest);
  CHECK_THAT(parsed(deep), ContainsSubstring("the manifest"));
  // A checkpoint with such a manifest is passed over as a damaged one is, and reads nothing.
  json all = json::parse(good);
  all["files"]["../../../stolen.safetensors"] = all["files"].begin().value();
  spill(folder + "/trainer_state.json", all.dump());
  CHECK_THROWS_WITH(go_on(run, nn::Resume::newest, false), ContainsSubstring("damaged"));
}
