// The strategies under what looks at all elements of a parameter at once.
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

TEST_CASE("every strategy ends with the bits of one process when gradients are clipped") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    for (const int ranks : {2, 3}) {
      CAPTURE(name(strategy), ranks);
      CHECK(climb_difference({strategy, Subject::gpt, Method::adamw, ranks, 3, 0.05}) == "");
      CHECK(climb_difference({strategy, Subject::odd, Method::sgd, ranks, 3, 0.05}) == "");
    }
  }
  CHECK(climb_difference({ShardingStrategy::hybrid, Subject::odd, Method::sgd, 4, 3, 0.05}) == "");
}

TEST_CASE("every strategy ends with the bits of one process under LAMB") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    CHECK(climb_difference({strategy, Subject::odd, Method::lamb, 3, 3, 0.0}) == "");
  }
  CHECK(climb_difference({ShardingStrategy::hybrid, Subject::mlp, Method::lamb, 4, 3, 0.0}) == "");
}

TEST_CASE("every strategy ends with the bits of one process under Muon and Adafactor") {
  for (const Method method : {Method::muon, Method::adafactor}) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
          ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
      CAPTURE(name(strategy), static_cast<int>(method));
      CHECK(climb_difference({strategy, Subject::odd, method, 3, 3, 0.0}) == "");
      // Muon leaves gradients of vectors, which clipping would take into the norm.
      const double clip = method == Method::muon ? 0.0 : 0.05;
      CHECK(climb_difference({strategy, Subject::gpt, method, 2, 2, clip}) == "");
    }
    CHECK(climb_difference({ShardingStrategy::hybrid, Subject::mlp, method, 4, 3, 0.0}) == "");
  }
}
