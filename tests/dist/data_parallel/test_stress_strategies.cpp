// The full form of the proofs of test_strategies_bits.cpp: ./tests/run stress.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

TEST_CASE("twenty steps under every strategy, with 1 to 8 ranks, end with the bits of one process",
          "[.][stress]") {
  for (const Subject subject : {Subject::mlp, Subject::odd, Subject::gpt}) {
    for (const Method method : {Method::sgd, Method::adamw, Method::lamb}) {
      for (const double clip : {0.0, 0.05}) {
        for (const int ranks : {1, 2, 3, 4, 5, 8}) {
          Whole expected;
          train({ShardingStrategy::single, subject, method, ranks, 20, clip}, expected, nullptr);
          for (const ShardingStrategy strategy :
               {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
                ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
                ShardingStrategy::hybrid}) {
            if (strategy == ShardingStrategy::hybrid && ranks % 2 != 0) continue;
            CAPTURE(name(strategy), ranks, static_cast<int>(subject), static_cast<int>(method),
                    clip);
            Whole got;
            const Climb c = {strategy, subject, method, ranks, 20, clip};
            dist::run_ranks(ranks, [&](dist::Communicator& world) { train(c, got, &world); });
            CHECK(expected.difference(got) == "");
          }
        }
      }
    }
  }
}
