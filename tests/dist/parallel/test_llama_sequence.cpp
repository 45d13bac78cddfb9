// A Llama whose ranks share each sequence, or hold a part of it between the modules that are cut.
#include <cmath>

#include "dist/parallel/boxes.h"
#include "dist/parallel/llama.h"
#include "support/catch.h"

#include <hero/dist/context_parallel.h>
#include <hero/dist/tensor_parallel.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t kPositions = 8;

Tensor sequence_tokens() { return llama_ids({2, kPositions}, 1); }

Tensor sequence_targets() {
  const Tensor all = llama_ids({2, kPositions}, 2);
  all.select(0, 0).slice(0, 0, 3).fill_(-100);  // not as many on each rank
  return all;
}

// Sums of 16 to 32 products of float32 in another order, of values below 4.
constexpr double kReordered = 1e-5;

// `mine` beside one process's model, by value.
void check_gradients(nn::Llama& mine, bool tied) {
  const auto whole = made_llama(tied);
  const Tensor expected = whole->loss(sequence_tokens(), sequence_targets());
  const Tensor got = mine.loss(sequence_tokens(), sequence_targets());
  expect(std::abs(expected.item() - got.item()) < kReordered, "the loss");
  expected.backward();
  got.backward();
  for (const auto& [name, leaf] : mine.named_parameters()) {
    const Array of_whole = slice_of(whole->get_parameter(name).grad().array(), leaf);
    const double off = amax(abs(leaf.grad() - Tensor(of_whole))).item();
    expect(off < kReordered, name, " differs by ", off);
    expect(amax(abs(Tensor(of_whole))).item() > 1e-6, name, " has a gradient to compare");
  }
}

}  // namespace

TEST_CASE("ranks that share a Llama's sequences have the loss and gradients of one process",
          "[context]") {
  for (const bool tied : {false, true}) {
    for (const int ranks : {1, 2, 4}) {
      CAPTURE(tied, ranks);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto mine = made_llama(tied);
        dist::context_parallel(*mine, world, {.slices = 4});
        dist::DDP(*mine, world);
        check_gradients(*mine, tied);
      });
    }
  }
}

TEST_CASE("ranks that share a Llama's sequences train to the same bits on any number of them",
          "[context]") {
  for (const bool tied : {false, true}) {
    Whole expected;
    for (const int ranks : {1, 2, 4}) {
      for (const bool shards : {false, true}) {
        CAPTURE(tied, ranks, shards);
        Whole got;
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          const auto model = made_llama(tied);
          dist::context_parallel(*model, world, {.slices = 4});
          if (shards) {
            dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
          } else {
            dist::DDP(*model, world);
          }
          train_llama(*model, 0, ranks == 1 && !shards ? expected : got, kPositions);
        });
        if (got.size() > 0) CHECK(expected.difference(got) == "");
      }
    }
    REQUIRE(expected.size() > 30);
  }
}

TEST_CASE("a Llama's cut sequence has the loss and gradients of the whole", "[tensor]") {
  for (const bool tied : {false, true}) {
    for (const int ranks : {1, 2}) {
      CAPTURE(tied, ranks);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto mine = made_llama(tied);
        dist::tensor_parallel(*mine, world, {.slices = 2, .sequence = true});
        check_gradients(*mine, tied);
      });
    }
  }
}

TEST_CASE("a Llama's cut sequence trains to the same bits on one rank and on two", "[tensor]") {
  Whole expected, got;
  for (const int ranks : {1, 2}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = made_llama();
      dist::tensor_parallel(*model, world, {.slices = 2, .sequence = true});
      train_llama(*model, 0, ranks == 1 ? expected : got, kPositions);
    });
  }
  REQUIRE(expected.size() > 30);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("a Llama whose ranks share sequences draws no text", "[context]") {
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    const auto model = made_llama();
    dist::context_parallel(*model, world);
    model->generate(sequence_tokens(), {.max_new_tokens = 1});
  });
  CHECK_THAT(errors[1], ContainsSubstring("ranks share each sequence of this model"));
}
