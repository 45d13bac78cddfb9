// Tensor parallelism whose ranks hold a part of the sequence between the cut modules.
#include <cmath>
#include <string>

#include "dist/parallel/boxes.h"
#include "dist/parallel/tensor.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::GPTConfig sequence_gpt() {
  nn::GPTConfig config = tensor_gpt();
  config.block_size = 8;
  return config;
}

int64_t reduced_bytes(int64_t floats, int ranks) { return 2 * floats * 4 * (ranks - 1) / ranks; }

double sequence_loss(nn::GPT& model) {
  const Tensor loss =
      model.loss(gpt_labels(model.config(), 1, 0), gpt_labels(model.config(), 2, 0));
  loss.backward();
  return loss.item();
}

}  // namespace

TEST_CASE("a cut sequence has the loss of a whole one and gradients near it", "[tensor]") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const nn::GPTConfig config = sequence_gpt();
      const auto whole = made_gpt(config, false), plain = made_gpt(config, false),
                 mine = made_gpt(config, false);
      dist::tensor_parallel(*plain, world, {.slices = 4});
      dist::tensor_parallel(*mine, world, {.slices = 4, .sequence = true});
      sequence_loss(*whole);
      const double expected = sequence_loss(*plain), got = sequence_loss(*mine);
      expect(got == expected, "the same bits as with whole sequences");
      for (const auto& [name, leaf] : mine->named_parameters()) {
        const Array all = slice_of(whole->get_parameter(name).grad().array(), leaf);
        // sums of 16 to 64 products of float32 in another order, of values below 4
        const double differs = amax(abs(Tensor(leaf.grad().array()) - Tensor(all))).item();
        expect(differs < 1e-5, name, " differs by ", differs);
      }
    });
  }
}

TEST_CASE("a cut sequence trains to the same bits on one or two or four ranks", "[tensor]") {
  for (const bool shards : {false, true}) {
    const int data = shards ? 2 : 1;
    Whole expected;
    train_on(sequence_gpt(), {data, 1, 4, shards, false, true}, expected);
    for (const int tensor : {2, 4}) {
      CAPTURE(shards, tensor);
      Whole got;
      train_on(sequence_gpt(), {data, tensor, 4, shards, true, true}, got);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("a cut sequence sends as much as a whole one", "[tensor]") {
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const nn::GPTConfig config = sequence_gpt();
      const auto sent = [&](bool sequence) {
        const TensorGrid grid = {1, ranks, 0, false, false, sequence};
        const auto model = cut_gpt(config, mesh_of(world, grid), grid);
        world.traffic().reset();
        sequence_loss(*model);
        return world.traffic().bytes_of_axis("tensor");
      };
      const int64_t n = 2 * config.block_size * config.n_embd;
      const int64_t ends = reduced_bytes(n, ranks);  // half forward, half backward
      const int64_t small = config.n_layer * 6 * reduced_bytes(config.n_embd, ranks);
      expect(sent(true) == sent(false) + ends + small, "sent ", sent(true), " and ", sent(false));
    });
  }
}

TEST_CASE("what a cut sequence cannot do is an error", "[tensor]") {
  const auto error_of = [](const std::function<void(nn::GPT&)>& body) {
    return errors_of(2, [&](dist::Communicator& world) {
      nn::GPT model(sequence_gpt());
      dist::tensor_parallel(model, world, {.sequence = true});
      body(model);
    })[1];
  };
  const auto tokens = [](int64_t length) { return Tensor(Array::zeros({1, length}, kInt64)); };
  CHECK_THAT(error_of([&](nn::GPT& model) { model(tokens(7)); }),
             ContainsSubstring("2 slices do not divide the sequence of [1, 7, 16]"));
  CHECK_THAT(error_of([&](nn::GPT& model) { model.generate(tokens(4)); }),
             ContainsSubstring("generate with a model that was cut without .sequence"));
  const auto refused = [](const dist::TensorParallelOptions& options) {
    return errors_of(2, [&](dist::Communicator& world) {
      nn::TransformerEncoderLayer model(8, 2, {.dropout = 0.0});
      dist::tensor_parallel(model, world, options);
    })[0];
  };
  CHECK_THAT(refused({.sequence = true}),
             ContainsSubstring(".sequence is for an nn::GPT or nn::Llama"));
  CHECK_THAT(refused({.plan = {{"linear1", dist::Cut::colwise}}, .sequence = true}),
             ContainsSubstring(".sequence goes with the ready plan alone"));
}
