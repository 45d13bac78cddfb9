// A training program on several ranks that is killed while it trains and saves.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>

using namespace hero;
using namespace hero::test;
using hero_test::Child, hero_test::slurp, hero_test::TempDir;

namespace {

constexpr const char* kProgram = "a program on three ranks for the tests of resuming to start";
constexpr int kRanks = 3, kSteps = 24, kSaveEvery = 2;
// Rank 0 reports once a step, and in each save before, while it writes, and after.
constexpr int64_t kReports = kSteps + kSteps / kSaveEvery * 3;

// A run in a folder of that name saves in the background.
constexpr const char* kBackground = "background";

struct Reporter {
  nn::StateDict state_dict() const {
    Child::report();
    return {};
  }
  void load_state_dict(const nn::StateDict&) const {}
};

void train(dist::Communicator& world, const std::string& run, ShardingStrategy strategy) {
  const nn::SaveOptions how{.async = run.ends_with(kBackground)};
  manual_seed(3);
  Runner runner(world, {strategy, kRanks}, {Subject::mlp, Method::adamw});
  optim::Schedule schedule(*runner.optimizer, optim::CosineAnnealingLR{.t_max = kSteps});
  const Reporter reporter;
  double norm = 0;
  dist::Checkpointer checkpoint = runner.checkpointer(run);
  checkpoint.track("schedule", schedule);
  checkpoint.track("norm", norm);
  checkpoint.track("reporter", reporter);
  const auto report = [&] {
    if (world.rank() == 0) Child::report();
  };
  auto step = static_cast<int>(checkpoint.resume().value_or(0));
  while (step < kSteps) {
    const double noise = rand({}).item();  // the default generator goes on, too
    runner.optimizer->set_lr(runner.optimizer->lr() * (1.0 + 0.1 * noise));
    runner.step(step++);
    schedule.step();
    norm += noise;
    report();
    if (step % kSaveEvery != 0) continue;
    report();
    checkpoint.save(step, how);
    report();
  }
  dist::save_full(run + "/" + std::to_string(norm) + ".safetensors", world, *runner.model);
}

// What a finished run leaves: the model and, as its name, the number that it tracked.
std::string result(const std::string& run) {
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (entry.path().extension() == ".safetensors") {
      return entry.path().filename().string() + slurp(entry.path().string());
    }
  }
  return "";
}

std::string argument(const std::string& run, ShardingStrategy strategy) {
  return std::to_string(static_cast<int>(strategy)) + run;
}

void finish(const std::string& run, ShardingStrategy strategy) {
  Child child(kProgram, argument(run, strategy));
  while (child.arrives()) child.go_on();
  REQUIRE(child.wait() == 0);
}

// Every life is killed at a random moment and is under another strategy than the one before; the
// last may end.
void check_lives(int lives, const char* name = "killed", uint64_t seed = 2026) {
  const TempDir dir;
  finish(dir / "undisturbed", ShardingStrategy::ddp);
  const std::string expected = result(dir / "undisturbed");
  REQUIRE(expected.size() > 1000);
  constexpr ShardingStrategy kStrategies[] = {ShardingStrategy::fsdp, ShardingStrategy::zero2,
                                              ShardingStrategy::ddp, ShardingStrategy::zero3,
                                              ShardingStrategy::zero1};
  Generator random(seed);
  // ten lives are shorter than a whole run; where there are more, a run that has ended begins anew
  std::vector<int64_t> reports(static_cast<size_t>(lives)), microseconds(reports.size());
  fill_randint(reports, random.next(), 0, 1, kReports / 10 + 1);
  fill_randint(microseconds, random.next(), 0, 0, 4000);
  int runs = 0;
  const auto run = [&] { return dir / (std::to_string(runs) + name); };
  for (size_t life = 0; life < reports.size(); ++life) {
    const ShardingStrategy strategy = kStrategies[life % std::size(kStrategies)];
    if (life > 0 && life % 10 == 0) {
      finish(run(), strategy);
      CHECK((result(run()) == expected));
      ++runs;
    }
    Child child(kProgram, argument(run(), strategy));
    for (int64_t i = 0; i < reports[life]; ++i) {
      REQUIRE(child.arrives());
      child.go_on();
    }
    ::usleep(static_cast<useconds_t>(microseconds[life]));
    child.signal(SIGKILL);
    REQUIRE(child.wait() == 1000 + SIGKILL);
  }
  finish(run(), ShardingStrategy::fsdp);
  CHECK((result(run()) == expected));
}

}  // namespace

TEST_CASE(kProgram, "[.child]") {
  REQUIRE(Child::argument() != nullptr);
  const std::string text = Child::argument();
  dist::run_ranks(kRanks, [&](dist::Communicator& world) {
    train(world, text.substr(1), static_cast<ShardingStrategy>(text[0] - '0'));
  });
  std::exit(0);
}

TEST_CASE("a run on three ranks killed ten times ends with the bits of one that was not") {
  check_lives(10);
}

TEST_CASE("a run on three ranks killed a hundred times ends with the bits of those that were not",
          "[.][stress]") {
  check_lives(100);
}

TEST_CASE("a run on three ranks killed ten times that saves in the background has the same bits",
          "[async]") {
  check_lives(10, kBackground, 2027);
}

TEST_CASE("a run on three ranks killed twenty times while it saves in the background",
          "[.][stress][async]") {
  check_lives(20, kBackground, 2028);
}
