// Two processes and the folder of one run on several ranks.
#include <string>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/launch.h>

using Catch::Matchers::ContainsSubstring;
using hero::test::error_of;
using hero_test::Child, hero_test::slurp, hero_test::TempDir;
namespace dist = hero::dist;
namespace nn = hero::nn;

namespace {

constexpr const char* kProgram = "ranks that save a checkpoint and stay";

void save_on_three_ranks(const std::string& run, int64_t step,
                         const nn::CheckpointerOptions& options) {
  dist::run_ranks(3, [&](const dist::Communicator& world) {
    int64_t number = step;
    dist::Checkpointer checkpoint(run, world, options);
    checkpoint.track("number", number);
    (void)checkpoint.resume();
    checkpoint.save(step);
    if (world.rank() == 0 && Child::argument() != nullptr) Child::report();
    world.barrier();
  });
}

}  // namespace

TEST_CASE(kProgram, "[.child]") {
  if (Child::argument() != nullptr) save_on_three_ranks(Child::argument(), 5, {.keep = 0});
}

TEST_CASE("ranks are kept out of a run that others write, all with one error, and wait for them") {
  const TempDir dir;
  const std::string run = dir / "run";
  {
    const Child first(kProgram, run);
    REQUIRE(first.arrives());
    const std::string holder = slurp(run + "/LOCK");
    const std::string error =
        error_of([&] { save_on_three_ranks(run, 6, {.keep = 0, .patience_seconds = 0.0}); });
    CHECK_THAT(error,
               ContainsSubstring(run + " is in use by " + holder.substr(0, holder.size() - 1)));
    // One process alone is refused by the same lock.
    CHECK_THROWS_WITH(nn::Checkpointer(run, {.patience_seconds = 0.0}).save(7),
                      ContainsSubstring("is in use by"));
  }
  save_on_three_ranks(run, 6, {.keep = 0});  // the child was killed just now
  CHECK(dist::Checkpointer(run, dist::Communicator()).steps() == std::vector<int64_t>{5, 6});
}
