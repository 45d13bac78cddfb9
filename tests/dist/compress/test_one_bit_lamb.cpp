// 1-bit LAMB against one process that does what N workers do, to the bit.
#include <cmath>

#include "dist/compress/one_bit_lamb.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("one_bit: 1-bit LAMB has the bits of one process that simulates its workers") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const int steps = 8;
    const std::vector<Floats> expected = simulate_one_bit_lamb(ranks, steps);
    run_ranks(ranks, [&](Communicator& world) {
      train_one_bit_lamb(
          world, steps, [&](int step, const Floats& got, int64_t sent, OneBitLAMB& lamb) {
            const std::string off = unlike(got, expected[static_cast<size_t>(step)]);
            expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
            if (step < 3) return;
            const OneBitSimulation formula(static_cast<size_t>(ranks), got.size(), 128);
            const int64_t bytes = formula.bytes() + 8 * (ranks - 1);
            expect(sent == bytes && lamb.bytes_of_step() == bytes, "bytes");
          });
    });
  }
}

TEST_CASE("one_bit: 1-bit LAMB resumes bit for bit, and begins errors anew elsewhere") {
  const hero_test::TempDir dir;
  std::vector<Floats> expected(2), got(2);
  const auto run_of = [&](Communicator& world) {
    return TrackedBits<OneBitLAMB>(world, kOneBitLAMB, dir / "run");
  };
  run_ranks(2, [&](Communicator& world) {
    auto run = run_of(world);
    run.train(0, 5);
    run.checkpoint.save(5);
    run.train(5, 8);
    run.end(expected);
  });
  const auto resume = [&](Communicator& world, int to, std::vector<Floats>& ends) {
    auto run = run_of(world);
    run.train(static_cast<int>(run.checkpoint.resume().value()), to);
    run.end(ends);
  };
  run_ranks(2, [&](Communicator& world) { resume(world, 8, got); });
  for (size_t rank = 0; rank < 2; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
  hero_test::CapturedStderr captured;
  std::vector<Floats> others(4);
  run_ranks(4, [&](Communicator& world) { resume(world, 7, others); });
  CHECK_THAT(captured.text(), ContainsSubstring("begins anew: it was saved by 2 ranks"));
  for (const float value : others[0]) REQUIRE(std::isfinite(value));
}

TEST_CASE("one_bit: options of 1-bit LAMB and 0/1 Adam, and their wrong pairings") {
  CHECK_THROWS_WITH((OneBitLAMBOptions{.min_coeff = 0.0}.check_values()),
                    "one_bit_lamb: 0 < min_coeff <= max_coeff must hold: 0, 10");
  CHECK_THROWS_WITH((ZeroOneAdamOptions{.local_step_scaler = 0}.check_values()),
                    "zero_one_adam: local_step_scaler must be positive: 0");
  for (const bool lamb : {false, true}) {
    const std::vector<std::string> errors = errors_of(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DataParallel sharded = fully_shard(*model, world);
      if (lamb) OneBitLAMB(sharded, model->parameters());
      if (!lamb) ZeroOneAdam(sharded, model->parameters());
    });
    CHECK_THAT(errors[0], ContainsSubstring("needs a DDP, on which every rank holds whole"));
  }
}
