#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

namespace {

void check_strategies(Subject subject, Method method, int ranks, double clip,
                      DType dtype = kFloat32) {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
        ShardingStrategy::hybrid}) {
    if (strategy == ShardingStrategy::hybrid && ranks % 2 != 0) continue;
    CAPTURE(name(strategy), ranks);
    Climb c{strategy, subject, method, ranks, 4, clip};
    c.dtype = dtype;
    CHECK(climb_difference(c) == "");
  }
}

}  // namespace

TEST_CASE("every strategy ends with the bits of one process: MLP, SGD with momentum", "[threads]") {
  for (const int ranks : {1, 2, 3, 5}) check_strategies(Subject::mlp, Method::sgd, ranks, 0.0);
}

TEST_CASE("every strategy ends with the bits of one process: MLP, AdamW") {
  for (const int ranks : {2, 4}) check_strategies(Subject::mlp, Method::adamw, ranks, 0.0);
}

TEST_CASE("every strategy ends with the bits of one process: GPT, AdamW") {
  for (const int ranks : {1, 3, 4}) check_strategies(Subject::gpt, Method::adamw, ranks, 0.0);
}

TEST_CASE("every strategy ends with the bits of one process: GPT::loss, AdamW with clipping") {
  for (const int ranks : {2, 3}) check_strategies(Subject::gpt_loss, Method::adamw, ranks, 0.5);
}

TEST_CASE(
    "every strategy ends with the bits of one process: GPT::loss with a head that is a unit") {
  for (const int ranks : {2, 3}) check_strategies(Subject::gpt_untied, Method::adamw, ranks, 0.0);
}

TEST_CASE("every strategy ends with the bits of one process: encoder layers") {
  check_strategies(Subject::encoder, Method::adamw, 2, 0.0);
}

TEST_CASE("every strategy ends with the bits of one process: bfloat16") {
  for (const Subject subject : {Subject::gpt_tanh, Subject::gpt_untied, Subject::encoder}) {
    check_strategies(subject, Method::adamw, 2, 0.0, kBFloat16);
  }
  for (const int ranks : {3, 6}) {
    check_strategies(Subject::gpt_tanh, Method::adamw, ranks, 0.0, kBFloat16);
  }
}

TEST_CASE(
    "every strategy ends with the bits of one process: frozen, tied, scalar, tiny, used twice") {
  for (const int ranks : {2, 3, 8}) check_strategies(Subject::odd, Method::sgd, ranks, 0.0);
}
