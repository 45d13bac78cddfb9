// Llama: its definition in single operations, its layers, its loss, its rotary scaling.
#include <algorithm>
#include <cmath>

#include "nn/pretrained.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/graph.h"

#include <hero/autograd/ops.h>
#include <hero/nn/llama.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::Llama, nn::LlamaConfig;
using test::count_nodes;

namespace {

LlamaConfig tiny_llama() {
  return {.vocab_size = 11,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 16};
}

Tensor ids(int64_t count) { return remainder(arange(Scalar(count)) * 7, 11); }

}  // namespace

TEST_CASE("a Llama's parameters have the names, order and layout of transformers") {
  LlamaConfig config = tiny_llama();
  config.num_hidden_layers = 1;
  config.qkv_bias = true;
  std::string names;
  for (const auto& [name, p] : Llama(config).named_parameters())
    names += name + " " + to_string(p.shape()) + "\n";
  CHECK(names ==
        "model.embed_tokens.weight [11, 8]\n"
        "model.layers.0.self_attn.q_proj.weight [8, 8]\n"
        "model.layers.0.self_attn.q_proj.bias [8]\n"
        "model.layers.0.self_attn.k_proj.weight [4, 8]\n"
        "model.layers.0.self_attn.k_proj.bias [4]\n"
        "model.layers.0.self_attn.v_proj.weight [4, 8]\n"
        "model.layers.0.self_attn.v_proj.bias [4]\n"
        "model.layers.0.self_attn.o_proj.weight [8, 8]\n"
        "model.layers.0.mlp.gate_proj.weight [12, 8]\n"
        "model.layers.0.mlp.up_proj.weight [12, 8]\n"
        "model.layers.0.mlp.down_proj.weight [8, 12]\n"
        "model.layers.0.input_layernorm.weight [8]\n"
        "model.layers.0.post_attention_layernorm.weight [8]\n"
        "model.norm.weight [8]\n"
        "lm_head.weight [11, 8]\n");
}

TEST_CASE("a Llama made on meta has shapes, and later the values of one made at once") {
  LlamaConfig config = tiny_llama();
  config.tie_word_embeddings = GENERATE(false, true);
  manual_seed(6);
  Llama whole(config);
  manual_seed(6);
  const auto later = [&] {
    const nn::DeviceScope meta(kMeta);
    auto made = std::make_unique<Llama>(config);
    CHECK((*made)(zeros({2, 5}, {.dtype = kInt64, .device = kMeta})).shape() == Shape{2, 5, 11});
    made->materialize();
    return made;
  }();
  const nn::StateDict a = whole.state_dict(), b = later->state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(test::same(a[i].array, b[i].array));
  CHECK(is_same(later->lm_head.weight, later->model.embed_tokens.weight) ==
        config.tie_word_embeddings);
}

TEST_CASE("residuals and norms are one operation, and checkpoints change no bit") {
  const Tensor tokens = ids(8), targets = ids(9).slice(0, 1);
  const auto gradients = [&](bool checkpoint, bool hooked) {
    LlamaConfig config = tiny_llama();
    config.checkpoint = checkpoint;
    manual_seed(7);
    Llama llama(config);
    if (hooked) {
      llama.model.layers[0].register_forward_hook(
          [](nn::Module&, const nn::Tensors&, const nn::Tensors&) {});
    }
    const Tensor loss = llama.loss(tokens, targets);
    if (!checkpoint && !hooked) CHECK(count_nodes(loss, "add_rms_norm") == 4);
    loss.backward();
    std::vector<Array> grads;
    for (const Tensor& p : llama.parameters()) grads.push_back(p.grad().array());
    return grads;
  };
  const std::vector<Array> plain = gradients(false, false);
  for (const auto& [checkpoint, hooked] : {std::pair(true, false), {false, true}}) {
    const std::vector<Array> other = gradients(checkpoint, hooked);
    for (size_t i = 0; i < plain.size(); ++i) CHECK(test::same(other[i], plain[i]));
  }
}

TEST_CASE("a Llama's loss is the cross entropy of its logits") {
  manual_seed(7);
  Llama llama(tiny_llama());
  const Tensor tokens = ids(16).reshape({2, 8}), text = ids(18).slice(0, 2);
  const Tensor targets = where(text == 3, -100, text).reshape({2, 8});
  const nn::Tensors parameters = llama.parameters();
  const Tensor plain = cross_entropy(flatten(llama(tokens), 0, 1), flatten(targets));
  const Tensor loss = llama.loss(tokens, targets);
  CHECK(equal(loss, plain));
  const nn::Tensors expected = grad({plain}, parameters), found = grad({loss}, parameters);
  // 1e-5: the sums of gradients have another order
  for (size_t i = 0; i < found.size(); ++i) CHECK(allclose(found[i], expected[i], 1e-5, 1e-7));
  CHECK_THROWS_WITH(llama.loss(tokens, targets[0]), ContainsSubstring("targets [8] do not fit"));
  const Tensor none = llama.loss(tokens, full_like(targets, -100));
  CHECK(std::isnan(none.item()));
  for (const Tensor& g : grad({none}, parameters)) CHECK(equal(g, zeros_like(g)));
}

TEST_CASE("a Llama's layers one after the other are its forward, wherever it is cut") {
  manual_seed(8);
  Llama llama(tiny_llama());
  const Tensor tokens = ids(12).reshape({2, 6}), targets = ids(13).slice(0, 1).reshape({2, 6});
  REQUIRE(llama.layers() == 4);
  const Tensor logits = llama(tokens), loss = llama.loss(tokens, targets);
  for (size_t cut = 1; cut < 4; ++cut) {
    const Tensor middle = llama.run_layers(0, cut, tokens);
    CHECK(equal(llama.run_layers(cut, 4, middle), logits));
    CHECK(equal(llama.loss_from(cut, middle, targets), loss));
  }
  std::vector<nn::Module*> modules;
  for (size_t layer = 0; layer < 4; ++layer) {
    for (nn::Module* module : llama.modules_of(layer)) modules.push_back(module);
  }
  CHECK(modules.size() == 5);
}

TEST_CASE("rotary scaling: linear slows every pair, llama3 the slow ones alone") {
  constexpr int64_t D = 16;
  const Tensor x = Tensor(test::noise({40, D}, kFloat64));
  const auto turned = [&](const nn::RotaryScaling& scaling) {
    return nn::rotary_embedding(x, 0, {.base = 100.0, .scaling = scaling});
  };
  const auto pair = [](const Tensor& t, int64_t i) {
    return cat({t.slice(1, i, i + 1), t.slice(1, D / 2 + i, D / 2 + i + 1)}, 1);
  };
  // at position 4 m scaled by 4 as at position m
  const Tensor slow = turned({.kind = nn::RotaryScaling::Kind::linear, .factor = 4.0});
  const Tensor row = x.slice(0, 36, 37);
  const Tensor expected = nn::rotary_embedding(row, 9, {.base = 100.0});
  CHECK(allclose(slow.slice(0, 36, 37), expected, 1e-12, 1e-12));
  // of 8 pairs, with rates 100^(-i/8), pair 0 turns fully 40 / 6.3 = 6.4 times, pair 7 0.11 times
  const Tensor three = turned({.kind = nn::RotaryScaling::Kind::llama3,
                               .factor = 4.0,
                               .low_freq_factor = 1.0,
                               .high_freq_factor = 4.0,
                               .original_positions = 40});
  const Tensor plain = turned({});
  CHECK(equal(pair(three, 0), pair(plain, 0)));
  CHECK(equal(pair(three, 7), pair(slow, 7)));
  CHECK(!equal(pair(three, 2), pair(plain, 2)));
  CHECK(!equal(pair(three, 2), pair(slow, 2)));
  CHECK_THROWS_WITH(turned({.kind = nn::RotaryScaling::Kind::linear, .factor = 0.5}),
                    ContainsSubstring("factor is 0.5"));
  CHECK_THROWS_WITH(
      turned({.kind = nn::RotaryScaling::Kind::llama3, .low_freq_factor = 4.0}),
      ContainsSubstring("low_freq_factor 4 must be positive and less than high_freq_factor 4"));
}

TEST_CASE(
    "rotary scaling: yarn slows pairs along a ramp and scales, dynamic grows with the sequence") {
  using Kind = nn::RotaryScaling::Kind;
  constexpr int64_t D = 16;
  // Of x = (1, .., 1, 0, .., 0) row t is (cos, .., sin, ..) of t times the rates, times the factor.
  const Tensor x =
      cat({ones({40, D / 2}, {.dtype = kFloat64}), zeros({40, D / 2}, {.dtype = kFloat64})}, 1);
  const auto rates = [&](int64_t T, double factor, const nn::RotaryScaling& scaling) {
    const Tensor y = nn::rotary_embedding(x.slice(0, 0, T), 0, {.base = 100.0, .scaling = scaling});
    std::vector<double> found;
    for (int64_t i = 0; i < D / 2; ++i) {
      const double c = y.select(0, 1).select(0, i).item(),
                   s = y.select(0, 1).select(0, D / 2 + i).item();
      CHECK(std::abs(std::hypot(c, s) - factor) < 1e-12);
      found.push_back(std::atan2(s, c));
    }
    return found;
  };
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) > 1e-12) return false;
    }
    return a.size() == b.size();
  };
  std::vector<double> plain, yarn, yarn_exact, dynamic;
  // In 40 positions pair i makes 40 / 2 pi * 100^(-i / 8) turns: 4 of them at i = 0.8, 1 at i
  // = 3.2.
  const double kPi = 3.141592653589793;
  const auto pair_of = [&](double turns) {
    return 8.0 * std::log(40.0 / (2 * kPi * turns)) / std::log(100.0);
  };
  const double low = pair_of(4.0), high = pair_of(1.0);
  REQUIRE((low > 0.5 && low < 1.0 && high > 3.0 && high < 4.0));
  for (int i = 0; i < 8; ++i) {
    plain.push_back(std::pow(100.0, -i / 8.0));
    const auto slowed = [&](double begin, double end) {
      const double ramp = std::clamp((i - begin) / (end - begin), 0.0, 1.0);
      return plain.back() * (1.0 - ramp) + plain.back() / 8.0 * ramp;
    };
    yarn.push_back(slowed(0.0, 4.0));
    yarn_exact.push_back(slowed(low, high));
    // 30 positions where 20 were trained: the base grows by (2 * 30 / 20 - 1)^(16 / 14)
    dynamic.push_back(std::pow(100.0 * std::pow(2.0, 16.0 / 14.0), -i / 8.0));
  }
  nn::RotaryScaling scaling = {
      .kind = Kind::yarn, .factor = 8.0, .original_positions = 40, .beta_fast = 4.0};
  CHECK(near(rates(40, 0.1 * std::log(8.0) + 1.0, scaling), yarn));
  scaling.truncate = false;
  scaling.attention_factor = 1.5;
  CHECK(near(rates(40, 1.5, scaling), yarn_exact));
  const nn::RotaryScaling grows = {.kind = Kind::dynamic, .factor = 2.0, .original_positions = 20};
  CHECK(near(rates(20, 1.0, grows), plain));
  CHECK(near(rates(30, 1.0, grows), dynamic));
  // the module keeps its table, which a sequence of another length must not find
  nn::RotaryEmbedding rotary(D, {.base = 100.0, .scaling = grows});
  for (const int64_t T : {8, 30, 25, 30, 8, 21}) {
    CHECK(equal(rotary(x.slice(0, 0, T)),
                nn::rotary_embedding(x.slice(0, 0, T), 0, {.base = 100.0, .scaling = grows})));
    CHECK(equal(rotary(x.slice(0, 0, 2), T),
                nn::rotary_embedding(x.slice(0, 0, 2), T, {.base = 100.0, .scaling = grows})));
  }
  CHECK_THROWS_WITH(rates(2, 1.0, {.kind = Kind::yarn, .factor = 2.0, .beta_slow = 32.0}),
                    ContainsSubstring("beta_slow 32 must be positive and less than beta_fast 32"));
  CHECK_THROWS_WITH(rates(2, 1.0, {.kind = Kind::yarn, .factor = 2.0, .attention_factor = -1.0}),
                    ContainsSubstring("attention_factor is -1"));
  CHECK_THROWS_WITH(rates(2, 1.0, {.kind = Kind::dynamic, .factor = 2.0, .original_positions = 0}),
                    ContainsSubstring("original_positions is 0"));
  CHECK_THROWS_WITH(nn::RotaryEmbedding(2, {.scaling = grows}),
                    ContainsSubstring("more than 2 elements"));
  // a Llama's longest sequence is as long as the rule reaches
  nn::Llama llama({.vocab_size = 11,
                   .hidden_size = 8,
                   .intermediate_size = 8,
                   .num_hidden_layers = 1,
                   .num_attention_heads = 2,
                   .max_position_embeddings = 20,
                   .rope_scaling = grows});
  CHECK(llama.context_length() == 40);
  CHECK(llama(zeros({40}, {.dtype = kInt64})).shape() == Shape{40, 11});
  CHECK_THROWS_WITH(llama(zeros({41}, {.dtype = kInt64})), ContainsSubstring("of 40"));
}

TEST_CASE("rows at positions of their own turn as each by itself") {
  nn::RotaryEmbedding rotary(6);
  const Tensor x = Tensor(test::noise({3, 2, 4, 6}));
  const std::vector<int64_t> offsets = {5, 0, 2};
  const Tensor all = rotary(x, offsets);
  for (int64_t b = 0; b < 3; ++b) {
    CHECK(equal(all[b], rotary(x[b], offsets[static_cast<size_t>(b)])));
  }
  CHECK_THROWS_WITH(rotary(x, std::vector<int64_t>{1, 2}), ContainsSubstring("2 offsets"));
}

TEST_CASE("a Llama says what does not fit") {
  LlamaConfig config = tiny_llama();
  config.num_attention_heads = 3;
  config.num_key_value_heads = 3;
  CHECK_THROWS_WITH(Llama(config), ContainsSubstring("does not divide hidden_size 8"));
  config.head_dim = 3;
  CHECK_THROWS_WITH(Llama(config), ContainsSubstring("head_dim is 3"));
  config.head_dim = 4;
  CHECK(Llama(config)(ids(4)).shape() == Shape{4, 11});
  config.num_key_value_heads = 2;
  CHECK_THROWS_WITH(Llama(config), ContainsSubstring("num_key_value_heads 2 does not divide"));
  CHECK_THROWS_WITH(Llama({.vocab_size = 0}), ContainsSubstring("sizes must be positive"));
  Llama llama(tiny_llama());
  CHECK_THROWS_WITH(llama(ids(17)), ContainsSubstring("17 tokens do not fit"));
}
