// What a failure leaves behind: time-outs, an unusable world, arrays that are free.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/backends/rank_frame.h>
#include <hero/dist/backends/run_ranks.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

Array some(int64_t n = 4) { return Array::zeros({n}); }

TEST_CASE("a rank that hangs is named by the time-out on every rank", "[dist][threads]") {
  std::string line;
  std::vector<std::string> errors;
  const auto is_named = [&line](const std::string& error) {
    return error.find(line) != std::string::npos;
  };
  // A time-out that is too short for ranks 0 and 2 to meet on a busy machine names both ranks that
  // are missing: a longer one follows.
  for (const std::string seconds : {"0.05", "2", "60"}) {
    line = "all_reduce (call 1 of 'world', unit 'fc1'): time-out after " + seconds +
           " s: rank 1 did not arrive";
    std::atomic<int> gave_up{0};
    errors = errors_of(3,
                       [&](Communicator& world) {
                         if (world.rank() == 1) {
                           world.barrier();
                           // "computes" for as long as the others wait
                           for (int n = gave_up; n < 2; n = gave_up) gave_up.wait(n);
                           world.barrier();
                         }
                         try {
                           if (world.rank() != 1) world.barrier();
                           world.all_reduce(some(), {.unit = "fc1"});
                         } catch (...) {
                           ++gave_up;
                           gave_up.notify_all();
                           throw;
                         }
                       },
                       {.timeout = std::stod(seconds), .timeout_join = 600});
    if (std::all_of(errors.begin(), errors.end(), is_named)) break;
  }
  for (const std::string& error : errors) {
    REQUIRE_THAT(error, Catch::Matchers::ContainsSubstring(line));
  }
}

TEST_CASE("a thread that hangs outside of a call is told apart from the failure", "[dist]") {
  std::atomic<bool> told{false};
  std::vector<int> left;
  std::string line;
  const Stuck stuck = {.seconds = 0.02, .tell = [&](const Outcome& outcome, const auto& ranks) {
                         left = ranks;
                         line = message_of(outcome.error);
                         told = true;
                         told.notify_all();
                       }};
  const auto program = [&](Communicator& world) {
    if (world.rank() == 1) return told.wait(false);
    world.barrier();
  };
  const Outcome outcome = run_outcome(3, program, {.timeout_join = 0.05}, stuck);
  CHECK(outcome.error);
  CHECK(left == std::vector<int>{1});
  CHECK_THAT(line, Catch::Matchers::ContainsSubstring("rank 1 did not arrive"));
  left.clear();
  run_outcome(
      3, [](Communicator& world) { world.barrier(); }, {}, stuck);
  CHECK(left.empty());
}

TEST_CASE("HERO_TIMEOUT must be a positive number", "[dist]") {
  for (const char* text : {"soon", "-1", "0", "5s"}) {
    ::setenv("HERO_TIMEOUT", text, 1);
    REQUIRE_THROWS_WITH(run_ranks(1, [](Communicator&) {}),
                        Catch::Matchers::ContainsSubstring("HERO_TIMEOUT"));
  }
  ::setenv("HERO_TIMEOUT", "0.01", 1);
  std::atomic<bool> done{false};
  const auto errors = errors_of(2, [&](Communicator& world) {
    if (world.rank() == 1) return done.wait(false);
    try {
      world.barrier();
    } catch (...) {
      done = true;
      done.notify_all();
      throw;
    }
  });
  ::unsetenv("HERO_TIMEOUT");
  REQUIRE_THAT(errors[0], Catch::Matchers::ContainsSubstring("time-out of joining after 0.01 s"));
}

// What rank 0 says of a rank that does not come to the last of these calls.
std::string waits_in_vain(const RankProgram& calls, const RankProgram& last,
                          const RunOptions& options) {
  std::atomic<bool> done{false};
  return errors_of(
      2,
      [&](Communicator& world) {
        calls(world);
        if (world.rank() == 1) return done.wait(false);
        try {
          last(world);
        } catch (...) {
          done = true;
          done.notify_all();
          throw;
        }
      },
      options)[0];
}

TEST_CASE("joining and checkpoints and steps have time-outs of their own", "[dist][timeouts]") {
  const RankProgram nothing = [](Communicator&) {};
  const RankProgram barrier = [](Communicator& world) { world.barrier(); };
  const RankProgram split = [](Communicator& world) { world.split(0, 0); };
  const RankProgram save = [](Communicator& world) { Checkpointer("/nowhere", world).save(1); };
  // the other two are long: they would be seen
  const RunOptions step{.timeout = 0.02, .timeout_join = 500, .timeout_checkpoint = 500};
  const RunOptions join{.timeout = 500, .timeout_join = 0.03, .timeout_checkpoint = 500};
  const RunOptions checkpoint{.timeout = 500, .timeout_join = 500, .timeout_checkpoint = 0.04};
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(waits_in_vain(barrier, barrier, step),
             ContainsSubstring("barrier (call 1 of 'world'): time-out after 0.02 s: rank 1 did not "
                               "arrive; set HERO_TIMEOUT to more seconds"));
  CHECK_THAT(waits_in_vain(nothing, barrier, join),
             ContainsSubstring("barrier (call 0 of 'world'): time-out of joining after 0.03 s: "
                               "rank 1 did not arrive; set HERO_TIMEOUT_JOIN to more seconds"));
  CHECK_THAT(waits_in_vain(barrier, split, join),
             ContainsSubstring("time-out of joining after 0.03 s"));
  CHECK_THAT(waits_in_vain(barrier, save, checkpoint),
             ContainsSubstring("time-out of a checkpoint after 0.04 s: rank 1 did not arrive; set "
                               "HERO_TIMEOUT_CHECKPOINT to more seconds"));
}

TEST_CASE("time-outs of the environment hold where the options name none", "[dist][timeouts]") {
  ::setenv("HERO_TIMEOUT", "7", 1);
  ::setenv("HERO_TIMEOUT_CHECKPOINT", "9", 1);
  const Timeouts all = timeouts_of({}), own = timeouts_of({.timeout_join = 3});
  ::setenv("HERO_TIMEOUT_CHECKPOINT", "soon", 1);
  CHECK_THROWS_WITH(timeouts_of({}),
                    Catch::Matchers::ContainsSubstring("HERO_TIMEOUT_CHECKPOINT is not a positive "
                                                       "number of seconds: 'soon'"));
  ::unsetenv("HERO_TIMEOUT");
  ::unsetenv("HERO_TIMEOUT_CHECKPOINT");
  const Timeouts none = timeouts_of({.timeout = 2});
  ::setenv("HERO_TIMEOUT_JOIN", "5", 1);
  const Timeouts some = timeouts_of({.timeout = 2, .timeout_checkpoint = 4});
  ::unsetenv("HERO_TIMEOUT_JOIN");
  CHECK((all.step == 7 && all.join == 7 && all.checkpoint == 9));
  CHECK((own.step == 7 && own.join == 3 && own.checkpoint == 9));
  CHECK((none.step == 2 && none.join == 2 && none.checkpoint == 2));
  CHECK((some.step == 2 && some.join == 5 && some.checkpoint == 4));
}

TEST_CASE("the innermost phase counts", "[dist][timeouts]") {
  REQUIRE(PhaseScope::current() == Phase::step);
  {
    const PhaseScope saving(Phase::checkpoint);
    {
      const PhaseScope joining(Phase::join);
      CHECK(PhaseScope::current() == Phase::join);
    }
    CHECK(PhaseScope::current() == Phase::checkpoint);
  }
  CHECK(PhaseScope::current() == Phase::step);
}

TEST_CASE("after an error the world refuses every further call", "[dist]") {
  errors_of(2, [](Communicator& world) {
    const std::string first = error_of([&] { world.all_reduce(some(world.rank() + 1)); });
    const std::string second = error_of([&] { world.barrier(); });
    expect(!first.empty() && first == second, "the first error again: ", second);
  });
  const auto errors = errors_of(
      2, [](Communicator& world) { error_of([&] { world.all_reduce(some(world.rank() + 1)); }); });
  REQUIRE(errors == std::vector<std::string>{"", ""});  // caught: the program's own decision
}

TEST_CASE("an error that is no exception of the standard stops all", "[dist]") {
  std::string other;
  REQUIRE_THROWS_AS(run_ranks(2,
                              [&](Communicator& world) {
                                if (world.rank() == 1) throw 7;
                                other = error_of([&] { world.barrier(); });
                              }),
                    int);
  REQUIRE_THAT(other, Catch::Matchers::ContainsSubstring("rank 1 failed"));
}

TEST_CASE("a wrong argument that is caught does no harm", "[dist]") {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 1)
      expect(!error_of([&] { world.broadcast(some(), 5); }).empty(), "refused");
    world.barrier();
  });
}

TEST_CASE("arrays of a failed call are free at once", "[dist][threads]") {
  // Under the sanitizers: nobody reads what a rank that failed writes or frees.
  for (int round = 0; round < 20; ++round) {
    errors_of(4, [&](Communicator& world) {
      const Array x = Array::ones({5000});
      try {
        Work work = world.all_reduce(x, {.async = true});
        if (world.rank() == round % 4) fail("stop");
        work.wait();
        world.barrier();
      } catch (const Error&) {
        if (world.rank() != round % 4) x.data<float>()[17] = 3.0F;
        throw;
      }
    });
  }
}

}  // namespace
