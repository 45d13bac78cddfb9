// Attention with fewer heads of keys and values than slices: several slices attend to the same.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "dist/parallel/llama.h"
#include "dist/parallel/tensor.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;
using hero_test::TempDir;

namespace {

// Sums of 16 to 64 products of float32 in another order, of values below 4.
constexpr double kOtherOrder = 1e-5;

nn::LlamaConfig few_heads(int64_t kv_heads) {
  nn::LlamaConfig config = ranks_llama();
  config.num_key_value_heads = kv_heads;
  config.vocab_size = 20;
  return config;
}

std::unique_ptr<nn::Llama> llama_with(int64_t kv_heads) {
  manual_seed(7);
  return std::make_unique<nn::Llama>(few_heads(kv_heads));
}

nn::GPTConfig gpt_with(int64_t kv_heads) {
  nn::GPTConfig config = tensor_gpt();
  config.n_kv_head = kv_heads;
  config.rotary = kv_heads == 2;
  return config;
}

double largest_difference(const Array& a, const Array& b) {
  check(a.shape() == b.shape(), "shapes ", a.shape(), " and ", b.shape());
  return amax(abs(Tensor(a).to(kFloat64) - Tensor(b).to(kFloat64))).item();
}

// What this rank has of each tensor that `of` takes of a parameter, against the whole module's.
void expect_near(nn::Module& mine, nn::Module& whole, double tolerance,
                 const std::function<Array(const Tensor&)>& of) {
  for (const auto& [name, leaf] : mine.named_parameters()) {
    const Array expected = slice_of(of(whole.get_parameter(name)), leaf);
    const double found = largest_difference(of(leaf).reshape(expected.shape()), expected);
    expect(found <= tolerance, name, " differs by ", found);
  }
}

Array gradient(const Tensor& p) { return p.grad().array(); }
Array values(const Tensor& p) { return p.array(); }

template <class Model>
void check_model(const std::function<std::unique_ptr<Model>()>& make, const Tensor& tokens,
                 const Tensor& targets, const dist::TensorParallelOptions& options) {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const TempDir dir;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto whole = make(), mine = make();
      dist::tensor_parallel(*mine, world, options);
      optim::SGD sgd_whole(whole->parameters(), {.lr = 0.1, .momentum = 0.9});
      optim::SGD sgd_mine(mine->parameters(), {.lr = 0.1, .momentum = 0.9});
      for (int step = 0; step < 3; ++step) {
        const Tensor expected = whole->loss(tokens, targets), got = mine->loss(tokens, targets);
        expect(std::abs(expected.item() - got.item()) < kOtherOrder, "the loss");
        expected.backward();
        got.backward();
        expect_near(*mine, *whole, kOtherOrder, gradient);
        const double norm = optim::clip_grad_norm(whole->parameters(), 1e9).item();
        expect(std::abs(optim::clip_grad_norm(mine->parameters(), 1e9).item() - norm) < 1e-5 * norm,
               "each element counts once");
        sgd_whole.step();
        sgd_mine.step();
        whole->zero_grad();
        mine->zero_grad();
      }
      expect_near(*mine, *whole, kOtherOrder, values);
      if (!options.sequence) {
        const auto drawn = [&](Model& model) {
          return model.generate(tokens, {.max_new_tokens = 9, .temperature = 0.0})
              .template to_vector<int64_t>();
        };
        expect(drawn(*mine) == drawn(*whole), "text");
      }
      const std::string file = dir / "model.safetensors";
      dist::save_full(file, world, *mine);
      const auto read = make();
      read->load(file);
      expect_near(*mine, *read, 0.0, values);
      const auto again = make();
      dist::tensor_parallel(*again, world, options);
      dist::load_full(file, world, *again);
      expect_near(*again, *read, 0.0, values);
    });
  }
}

}  // namespace

TEST_CASE("one or two heads of keys and values in four slices compute what the whole computes",
          "[tensor]") {
  for (const int64_t kv_heads : {1, 2}) {
    for (const bool sequence : {false, true}) {
      CAPTURE(kv_heads, sequence);
      const dist::TensorParallelOptions options = {.slices = 4, .sequence = sequence};
      check_model<nn::Llama>([&] { return llama_with(kv_heads); }, llama_ids({2, 8}, 1),
                             llama_ids({2, 8}, 2), options);
      nn::GPTConfig config = gpt_with(kv_heads);
      config.block_size = 8;
      check_model<nn::GPT>([&] { return made_gpt(config, false); }, gpt_labels(config, 1, 0),
                           gpt_labels(config, 2, 0), options);
    }
  }
}

TEST_CASE(
    "four slices with one or two heads of keys and values have the same bits on 1, 2 and 4 "
    "ranks",
    "[tensor]") {
  for (const int64_t kv_heads : {1, 2}) {
    for (const bool shards : {false, true}) {
      const int data = shards ? 2 : 1;
      Whole expected;
      train_on(gpt_with(kv_heads), {data, 1, 4, shards}, expected);
      REQUIRE(expected.size() > 20);
      for (const int tensor : {2, 4}) {
        for (const bool meta : {false, true}) {
          CAPTURE(kv_heads, shards, tensor, meta);
          Whole got;
          train_on(gpt_with(kv_heads), {data, tensor, 4, shards, meta}, got);
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}

TEST_CASE("stages of a pipeline whose slices share heads of keys and values compute the whole",
          "[tensor]") {
  nn::GPTConfig config = gpt_with(1);
  config.tie_weights = false;
  const Tensor tokens = gpt_labels(config, 1, 0), targets = gpt_labels(config, 2, 0);
  const auto check_stages = [&](auto&& make) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"pipe", 2}, {"tensor", 2}});
      const auto whole = make(), mine = make();
      dist::tensor_parallel(*mine, mesh["tensor"]);
      dist::Pipeline pipe(*mine, mesh["pipe"]);
      const Tensor expected = whole->loss(tokens, targets);
      expected.backward();
      expect(std::abs(pipe.step(tokens, targets) - expected.item()) < kOtherOrder, "the loss");
      for (const auto& [name, leaf] : mine->named_parameters()) {
        if (leaf.numel() == 0) continue;  // of the other stage
        const Array all = slice_of(whole->get_parameter(name).grad().array(), leaf);
        expect(largest_difference(leaf.grad().array().reshape(all.shape()), all) <= kOtherOrder,
               name);
      }
    });
  };
  check_stages([&] { return made_gpt(config, false); });
  check_stages([&] { return llama_with(1); });
}

TEST_CASE("a checkpoint of shared heads of keys and values goes on in one process", "[tensor]") {
  const TempDir dir;
  const nn::GPTConfig config = gpt_with(1);
  Whole saved, single;
  const auto checkpointer = [&](const dist::Communicator& world, nn::Module& model,
                                optim::Optimizer& optimizer) {
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", optimizer);
    return checkpoint;
  };
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const TensorGrid grid = {1, 4};
    const auto model = cut_gpt(config, mesh_of(world, grid), grid);
    const auto optimizer = train_gpt(*model, 0);
    checkpointer(world, *model, *optimizer).save(3);
    add_state(saved, *model, *optimizer);
  });
  const auto model = made_gpt(config, false);
  const auto optimizer = make_method(Method::adamw, model->parameters());
  CHECK(checkpointer({}, *model, *optimizer).resume() == 3);
  add_state(single, *model, *optimizer);
  CHECK(saved.difference(single) == "");
}

TEST_CASE("attention of several inputs shares its heads of keys and values", "[tensor]") {
  for (const bool packed : {true, false}) {
    for (const int64_t kv_heads : {1, 2}) {
      for (const int ranks : {1, 2, 4}) {
        CAPTURE(packed, kv_heads, ranks);
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          nn::MultiheadAttentionOptions options = {.num_kv_heads = kv_heads};
          if (!packed) options.kdim = 6;
          const auto make = [&] {
            manual_seed(6);
            return std::make_unique<nn::MultiheadAttention>(8, 4, options);
          };
          const auto whole = make(), mine = make();
          dist::tensor_parallel(*mine, world, {.slices = 4});
          const Tensor x(noise({5, 2, 8})), value(noise({3, 2, 8}, kFloat32, 2));
          const Tensor key(noise({3, 2, packed ? 8 : 6}, kFloat32, 3));
          const nn::MultiheadAttentionInputs inputs = {.need_weights = false};
          const Tensor expected = (*whole)(x, key, value, inputs).output;
          const Tensor got = (*mine)(x, key, value, inputs).output;
          expect(largest_difference(got.array(), expected.array()) < kOtherOrder, "outputs");
          sum(square(expected)).backward();
          sum(square(got)).backward();
          expect_near(*mine, *whole, kOtherOrder, gradient);
        });
      }
    }
  }
}
