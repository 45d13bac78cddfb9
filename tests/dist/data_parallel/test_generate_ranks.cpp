// Text from a model that is sharded over ranks whose rows end at different steps.
#include <functional>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::GPT made_model() {
  manual_seed(7);
  return nn::GPT(tiny_gpt());
}

Tensor prompt_of(int rank) {
  const int64_t r = rank;
  return Tensor(Array::from(std::vector<int64_t>{3 + r, 1, 4 + 2 * r, 1 + r, 5, 9 - r}, {2, 3}));
}

struct Sharding {
  const char* name;
  std::function<void(nn::GPT&, const dist::Communicator&)> shard;
};

std::vector<Sharding> shardings() {
  return {
      {"fsdp",
       [](nn::GPT& model, const dist::Communicator& world) {
         dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
       }},
      {"fsdp, kept",
       [](nn::GPT& model, const dist::Communicator& world) {
         dist::fully_shard(model, world,
                           {.unit = dist::each<nn::Block>(), .reshard_after_forward = false});
       }},
      {"zero3", [](nn::GPT& model,
                   const dist::Communicator& world) { dist::ZeRO(model, world, {.stage = 3}); }},
  };
}

// Options that differ by rank in length; with `stops`, rows also end by tokens.
nn::GenerateOptions options_of(int rank, bool draws, bool stops) {
  nn::GenerateOptions options = {.max_new_tokens = rank == 1 ? 9 : 2 + rank};
  if (!draws) options.temperature = 0.0;
  if (stops) options.stop_tokens = {1, 2, 3, 4, 5, 6, 7};
  return options;
}

}  // namespace

TEST_CASE("ranks that end at different steps have the text that each has alone", "[strategies]") {
  for (const Sharding& sharding : shardings()) {
    for (const bool draws : {false, true}) {
      for (const bool stops : {false, true}) {
        CAPTURE(sharding.name, draws, stops);
        dist::run_ranks(3, [&](dist::Communicator& world) {
          const int rank = world.rank();
          nn::GPT whole = made_model(), model = made_model();
          sharding.shard(model, world);
          nn::GenerateOptions options = options_of(rank, draws, stops);
          manual_seed(20 + static_cast<uint64_t>(rank));
          const Tensor expected = whole.generate(prompt_of(rank), options);
          const Generator::State after = default_generator().state();
          options.any_unfinished = dist::any_unfinished(world);
          manual_seed(20 + static_cast<uint64_t>(rank));
          expect(equal(model.generate(prompt_of(rank), options), expected), "the text");
          expect(default_generator().state() == after, "the generator");
          // prompts of different lengths, and on rank 2 none
          std::vector<Tensor> list;
          if (rank < 2) list = {prompt_of(rank)[0], prompt_of(rank)[1].slice(0, 0, 2)};
          const std::vector<Tensor> texts = model.generate(list, options);
          options.any_unfinished = {};
          manual_seed(20 + static_cast<uint64_t>(rank));
          (void)whole.generate(prompt_of(rank), options);
          const std::vector<Tensor> alone = whole.generate(list, options);
          expect(texts.size() == alone.size(), "as many texts");
          for (size_t i = 0; i < texts.size(); ++i) expect(equal(texts[i], alone[i]), "a text");
        });
      }
    }
  }
}

TEST_CASE("a rank without rows or without steps takes part", "[strategies]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    nn::GPT whole = made_model(), model = made_model();
    dist::fully_shard(model, world);
    nn::GenerateOptions options = {.max_new_tokens = 4, .temperature = 0.0};
    const Tensor mine = world.rank() == 0 ? prompt_of(0) : prompt_of(0).slice(0, 0, 0);
    const Tensor expected = whole.generate(mine, options);
    options.any_unfinished = dist::any_unfinished(world);
    expect(equal(model.generate(mine, options), expected), "rows");
    options.max_new_tokens = world.rank() == 0 ? 0 : 3;
    const Tensor more = model.generate(prompt_of(1), options);
    expect(more.shape() == Shape{2, 3 + options.max_new_tokens}, "steps");
  });
}

TEST_CASE("without it, ranks that end at different steps are an error", "[strategies]") {
  const auto errors = errors_of(2, [](dist::Communicator& world) {
    nn::GPT model = made_model();
    dist::fully_shard(model, world);
    model.generate(prompt_of(0), {.max_new_tokens = 1 + 3 * world.rank(), .temperature = 0.0});
  });
  CHECK((errors[0] + errors[1]) != "");
}

TEST_CASE("a function that says that nobody goes on, where rows do, is an error") {
  nn::GPT model = made_model();
  CHECK_THROWS_WITH(model.generate(prompt_of(0), {.max_new_tokens = 2,
                                                  .any_unfinished = [](bool) { return false; }}),
                    ContainsSubstring("any_unfinished() says that nobody goes on"));
}
