// The rungs under what looks at all elements of a parameter at once.
#include "dist/ladder.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

TEST_CASE("every rung ends with the bits of one process when gradients are clipped") {
  for (const Rung rung : {Rung::ddp, Rung::zero1, Rung::zero2, Rung::zero3, Rung::fsdp}) {
    for (const int ranks : {2, 3}) {
      CAPTURE(name(rung), ranks);
      CHECK(climb_difference({rung, Subject::gpt, Method::adamw, ranks, 3, 0.05}) == "");
      CHECK(climb_difference({rung, Subject::odd, Method::sgd, ranks, 3, 0.05}) == "");
    }
  }
  CHECK(climb_difference({Rung::hybrid, Subject::odd, Method::sgd, 4, 3, 0.05}) == "");
}

TEST_CASE("every rung ends with the bits of one process under LAMB") {
  for (const Rung rung : {Rung::ddp, Rung::zero1, Rung::zero2, Rung::zero3, Rung::fsdp}) {
    CAPTURE(name(rung));
    CHECK(climb_difference({rung, Subject::odd, Method::lamb, 3, 3, 0.0}) == "");
  }
  CHECK(climb_difference({Rung::hybrid, Subject::mlp, Method::lamb, 4, 3, 0.0}) == "");
}
