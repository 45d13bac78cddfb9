// GPT and Llama are two configurations of one decoder, whose options go together in other ways,
// too.
#include <cmath>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::CausalLM, nn::CausalLMConfig;

namespace {

Tensor lm_tokens(int64_t rows, int64_t length) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows * length; ++i) ids.push_back(i * i % 11);
  return Tensor(Array::from(ids, {rows, length}));
}

CausalLMConfig tiny_lm() {
  return {.vocab_size = 11, .context_length = 16, .layers = 2, .heads = 4, .width = 16};
}

nn::CausalLMNames separate_names() {
  nn::CausalLMNames names;
  names.projections = {
      {"q", {nn::Heads::queries}}, {"k", {nn::Heads::keys}}, {"v", {nn::Heads::values}}};
  return names;
}

}  // namespace

TEST_CASE("a CausalLM of a GPT's or a Llama's configuration is that model") {
  const nn::GPTConfig gpt_config{
      .vocab_size = 11, .block_size = 16, .n_layer = 2, .n_head = 4, .n_embd = 16};
  const nn::LlamaConfig llama_config{.vocab_size = 11,
                                     .hidden_size = 16,
                                     .intermediate_size = 24,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 4,
                                     .num_key_value_heads = 2};
  const auto check_alike = [](CausalLM& a, CausalLM& b) {
    const nn::StateDict of_a = a.state_dict(), of_b = b.state_dict();
    REQUIRE(of_a.size() == of_b.size());
    for (size_t i = 0; i < of_a.size(); ++i) {
      CHECK(of_a[i].name == of_b[i].name);
      CHECK(test::same(of_a[i].array, of_b[i].array));
    }
    CHECK(equal(a(lm_tokens(2, 8)), b(lm_tokens(2, 8))));
  };
  manual_seed(3);
  nn::GPT gpt(gpt_config);
  manual_seed(3);
  CausalLM as_gpt(gpt_config);
  check_alike(gpt, as_gpt);
  manual_seed(3);
  nn::Llama llama(llama_config);
  manual_seed(3);
  CausalLM as_llama(llama_config);
  check_alike(llama, as_llama);
  CHECK(as_llama.type_name() == "CausalLM");
  CHECK(as_llama.body.blocks[0].type_name() == "LlamaDecoderLayer");
  CHECK(as_gpt.body.blocks[0].attn.type_name() == "CausalSelfAttention");
}

TEST_CASE("the options of a CausalLM go together: loss, cached generation and gradients") {
  for (const bool rotary : {false, true}) {
    for (const bool rms_norm : {false, true}) {
      for (const bool gated : {false, true}) {
        for (const bool separate : {false, true}) {
          CAPTURE(rotary, rms_norm, gated, separate);
          CausalLMConfig config = tiny_lm();
          config.kv_heads = 2;
          config.head_dim = 6;
          config.inner_width = 20;
          config.rms_norm = rms_norm;
          config.gated = gated;
          if (rotary) config.rotary = nn::RotaryOptions();
          if (separate) config.names = separate_names();
          manual_seed(5);
          CausalLM model(config);
          const Tensor x = lm_tokens(2, 8), y = lm_tokens(2, 9).slice(1, 1);
          const Tensor logits = model(x);
          CHECK(logits.shape() == Shape{2, 8, 11});
          const Tensor loss = model.loss(x, y);
          // sums over 11 classes of float32 in another order
          const double expected = cross_entropy(flatten(logits, 0, 1), flatten(y)).item();
          CHECK(std::abs(loss.item() - expected) < 1e-5 * expected);
          loss.backward();
          for (const auto& [name, leaf] : model.named_parameters()) {
            INFO(name);
            REQUIRE(leaf.grad().defined());
            CHECK(isfinite(leaf.grad()).all().item() == 1.0);
          }
          CHECK((model.body.positions == nullptr) == rotary);
          model.eval();
          const Tensor text = model.generate(x, {.max_new_tokens = 3, .temperature = 0.0});
          for (int64_t t = 8; t < 11; ++t) {
            const Tensor next = argmax(model(text.slice(1, 0, t)).select(1, -1), 1);
            CHECK(equal(text.select(1, t), next));
          }
        }
      }
    }
  }
}

TEST_CASE("packed and separate projections compute the same") {
  CausalLMConfig config = tiny_lm();
  config.kv_heads = 2;
  manual_seed(5);
  CausalLM packed(config);
  config.names = separate_names();
  CausalLM separate(config);
  nn::StateDict state;
  for (const auto& [name, array] : packed.state_dict()) {
    const size_t at = name.find("c_attn");
    if (at == std::string::npos) {
      state.push_back({name, array});
      continue;
    }
    const int64_t ends[] = {0, 16, 24, 32};  // 4 heads of queries, 2 of keys, 2 of values, 4 each
    for (size_t i = 0; i < 3; ++i) {
      const std::string part(1, "qkv"[i]);
      state.push_back(
          {name.substr(0, at) + part + name.substr(at + 6), array.slice(0, ends[i], ends[i + 1])});
    }
  }
  separate.load_state_dict(state);
  CHECK(equal(packed(lm_tokens(2, 8)), separate(lm_tokens(2, 8))));
}

TEST_CASE("blocks of a Llama are checkpointed by set_checkpoint with the same bits") {
  manual_seed(2);
  nn::Llama model({.vocab_size = 11,
                   .hidden_size = 16,
                   .intermediate_size = 24,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 4});
  std::vector<Array> gradients[2];
  for (const bool on : {false, true}) {
    CHECK(model.set_checkpoint(on));
    CHECK(model.config().checkpoint == on);
    model.zero_grad();
    model.loss(lm_tokens(1, 8), lm_tokens(1, 9).slice(1, 1)).backward();
    for (const Tensor& p : model.parameters()) gradients[on].push_back(p.grad().array().clone());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    CHECK(test::same(gradients[0][i], gradients[1][i]));
  }
}

TEST_CASE("configurations of a CausalLM that make no sense are errors") {
  const auto refused = [](void (*change)(CausalLMConfig&), const std::string& text) {
    CausalLMConfig config = tiny_lm();
    change(config);
    CHECK_THROWS_WITH(CausalLM(config), ContainsSubstring(text));
  };
  refused([](CausalLMConfig& c) { c.layers = 0; }, "CausalLM: sizes must be positive");
  refused([](CausalLMConfig& c) { c.heads = 0; }, "CausalLM: sizes must be positive");
  refused([](CausalLMConfig& c) { c.heads = 3; }, "heads 3 does not divide width 16");
  refused([](CausalLMConfig& c) { c.kv_heads = 3; }, "kv_heads 3 does not divide heads 4");
  refused([](CausalLMConfig& c) { c.inner_width = 0; }, "inner_width 0 must be positive");
  refused([](CausalLMConfig& c) { c.dropout = 1.5; }, "dropout is outside [0, 1]");
  refused(
      [](CausalLMConfig& c) {
        c.names.projections = {{"qk", {nn::Heads::queries, nn::Heads::keys}}};
      },
      "names.projections must give queries, keys and values, each once");
  CausalLMConfig config = tiny_lm();
  config.heads = 0;
  CHECK_THROWS_WITH(nn::CausalSelfAttention(config), ContainsSubstring("sizes must be positive"));
  // a feed-forward layer has no heads
  CHECK(nn::FeedForward(nn::GPTConfig{.n_embd = 8}).up.weight.shape() == Shape{32, 8});
  CHECK_THROWS_WITH(CausalLM(tiny_lm())(lm_tokens(1, 17)),
                    ContainsSubstring("17 tokens do not fit the context length of 16"));
}
