// Pipeline models: what layers compute one after the other, wherever they are cut, is what the
// whole does.
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/activation.h>
#include <hero/nn/gpt.h>
#include <hero/nn/pipeline_model.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;

nn::GPTConfig pipeline_config() {
  return {.vocab_size = 11, .block_size = 8, .n_layer = 3, .n_head = 2, .n_embd = 8};
}

std::vector<nn::GPTConfig> pipeline_configs() {
  std::vector<nn::GPTConfig> all(4, pipeline_config());
  all[1].tie_weights = false;
  all[2].checkpoint = true;
  all[3].rotary = true;
  return all;
}

std::pair<Tensor, Tensor> pipeline_batch() {
  return {remainder(arange(Scalar(24)) * 7, 11).reshape({3, 8}),
          remainder(arange(Scalar(24)) * 5 + 3, 11).reshape({3, 8})};
}

std::vector<uint64_t> taken_gradients(nn::Module& module) {
  std::vector<uint64_t> hashes;
  for (const Tensor& p : module.parameters()) {
    hashes.push_back(p.grad().defined() ? test::hash(p.grad().array()) : 0);
  }
  module.zero_grad();
  return hashes;
}

}  // namespace

TEST_CASE("the layers of a GPT have the bits of its forward and loss wherever they are cut",
          "[pipeline]") {
  const auto [tokens, targets] = pipeline_batch();
  for (const nn::GPTConfig& config : pipeline_configs()) {
    manual_seed(3);
    nn::GPT gpt(config);
    REQUIRE(gpt.layers() == 5);
    const Array logits = gpt(tokens).array(), loss = gpt.loss(tokens, targets).array();
    for (size_t cut = 1; cut < gpt.layers(); ++cut) {
      CAPTURE(config.tie_weights, config.checkpoint, config.rotary, cut);
      const Tensor y = gpt.run_layers(0, cut, tokens);
      CHECK(y.shape() == Shape{3, 8, 8});
      CHECK(test::same(gpt.run_layers(cut, gpt.layers(), y).array(), logits));
      CHECK(test::same(gpt.loss_from(cut, y, targets).array(), loss));
    }
    Tensor y = tokens;
    for (size_t i = 0; i < gpt.layers(); ++i) y = gpt.run_layers(i, i + 1, y);
    CHECK(test::same(y.array(), logits));
    CHECK(test::same(gpt.loss_from(0, tokens, targets).array(), loss));
  }
}

TEST_CASE("gradients that go through a border between layers are those of the whole",
          "[pipeline]") {
  const auto [tokens, targets] = pipeline_batch();
  for (const nn::GPTConfig& config : pipeline_configs()) {
    manual_seed(3);
    nn::GPT gpt(config);
    gpt.loss(tokens, targets).backward();
    const std::vector<uint64_t> expected = taken_gradients(gpt);
    for (size_t cut = 1; cut < gpt.layers(); ++cut) {
      CAPTURE(config.tie_weights, config.checkpoint, config.rotary, cut);
      const Tensor y = gpt.run_layers(0, cut, tokens);
      const Tensor received = y.detach().requires_grad_();
      gpt.loss_from(cut, received, targets).backward();
      y.backward(received.grad());
      CHECK(taken_gradients(gpt) == expected);
    }
  }
}

TEST_CASE("each parameter of a GPT belongs to the layer that computes with it", "[pipeline]") {
  nn::GPT gpt(pipeline_config());
  CHECK(gpt.modules_of(0) == std::vector<nn::Module*>{&gpt.transformer.wte, gpt.transformer.wpe});
  CHECK(gpt.modules_of(2) == std::vector<nn::Module*>{&gpt.transformer.h[1]});
  CHECK(gpt.modules_of(4) == std::vector<nn::Module*>{&gpt.transformer.ln_f, &gpt.lm_head});
  CHECK_THAT(test::error_of([&] { static_cast<void>(gpt.modules_of(5)); }),
             ContainsSubstring("GPT: layer 5 of 5"));
  CHECK_THAT(test::error_of([&] { static_cast<void>(gpt.run_layers(2, 2, Tensor())); }),
             ContainsSubstring("GPT: layers 2 to 2 of 5"));
}

TEST_CASE("a Sequential is a pipeline model of its children and a loss", "[pipeline]") {
  manual_seed(3);
  nn::Sequential net{nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 2)};
  const auto loss = [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); };
  nn::PipelineSequential model(net, loss);
  const Tensor x(test::noise({3, 4})), target(test::noise({3, 2}, kFloat32, 2));
  CHECK(model.layers() == 3);
  CHECK(&model.root() == &net);
  CHECK(model.modules_of(2) == std::vector<nn::Module*>{&net[2]});
  const Tensor y = model.run_layers(0, 2, x);
  CHECK(test::same(model.run_layers(2, 3, y).array(), net(x).array()));
  CHECK(test::same(model.loss_from(2, y, target).array(), mse_loss(net(x), target).array()));
}
