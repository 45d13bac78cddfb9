// A run whose shards and states lie in files, killed in the middle of paged steps.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/temp_dir.h"

#include <hero/core/swap_file.h>
#include <hero/dist/checkpoint.h>
#include <hero/optim/paged.h>

using namespace hero;
using namespace hero::test;
using hero_test::Child, hero_test::slurp, hero_test::TempDir;

namespace {

constexpr const char* kPagedProgram =
    "a program on two ranks for the tests of paged steps to start";
constexpr int kPagedRanks = 2, kPagedSteps = 6;

// Reports before each parameter of rank 0, whose states are in memory then while those of the one
// before are being written and those of the next are being read.
struct ReportingAdamW : optim::Paged<optim::AdamW> {
  bool reports = false;
  ReportingAdamW(core::SwapFile& disk, const std::vector<Tensor>& parameters)
      : Paged(disk, parameters, {.lr = 0.01}, {.window_bytes = 1}) {}

 protected:
  void update(int group, State& state, const Array& grad) override {
    Paged::update(group, state, grad);
    if (reports) Child::report();
  }
};

void train_paged(dist::Communicator& world, const std::string& run, core::SwapFile& shards) {
  core::SwapFile states(std::filesystem::temp_directory_path().string(),
                        {.bytes = int64_t{1} << 20});
  const auto model = make_subject(Subject::mlp);
  dist::fully_shard(*model, world,
                    {.unit = dist::each<nn::Linear>(), .offload = {.disk = &shards}});
  ReportingAdamW adamw(states, model->parameters());
  adamw.reports = world.rank() == 0;
  dist::Checkpointer checkpoint(run, world);
  checkpoint.track("model", *model);
  checkpoint.track("optimizer", static_cast<optim::Optimizer&>(adamw));
  auto step = static_cast<int>(checkpoint.resume().value_or(0));
  while (step < kPagedSteps) {
    subject_loss(Subject::mlp, *model, step++, world.rank()).backward();
    adamw.step();
    adamw.zero_grad();
    checkpoint.save(step);
  }
  dist::save_full(run + "/model.safetensors", world, *model);
}

// True when the child is in a step for the `reports`-th time; false when it ends before.
bool gets_to(Child& child, int reports) {
  for (int i = 0; i < reports; ++i) {
    if (i > 0) child.go_on();
    if (!child.arrives()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE(kPagedProgram, "[.child]") {
  REQUIRE(Child::argument() != nullptr);
  const std::string run = Child::argument();
  core::SwapFile shards(std::filesystem::temp_directory_path().string(),
                        {.bytes = int64_t{1} << 20});
  dist::run_ranks(kPagedRanks, [&](dist::Communicator& world) { train_paged(world, run, shards); });
  std::exit(0);
}

TEST_CASE("a run killed in the middle of paged steps goes on from its checkpoint, bit for bit") {
  const TempDir dir;
  const auto finish = [](const std::string& run) {
    Child child(kPagedProgram, run);
    int reports = 0;
    for (; child.arrives(); ++reports) child.go_on();
    REQUIRE(child.wait() == 0);
    return reports;
  };
  const int each = finish(dir / "undisturbed") / kPagedSteps;  // reports of a step
  REQUIRE(each >= 3);
  const std::string killed = dir / "killed";
  int steps = 0;  // that a checkpoint has
  for (const int reports : {2, each + 1, each, 2 * each, 2 * each - 1}) {
    Child child(kPagedProgram, killed);
    REQUIRE(gets_to(child, reports));
    child.signal(SIGKILL);
    REQUIRE(child.wait() == 1000 + SIGKILL);
    steps += (reports - 1) / each;
  }
  CHECK(finish(killed) == (kPagedSteps - steps) * each);
  const std::string expected = slurp(dir / "undisturbed/model.safetensors");
  CHECK(expected.size() > 1000);
  CHECK((slurp(killed + "/model.safetensors") == expected));
}
