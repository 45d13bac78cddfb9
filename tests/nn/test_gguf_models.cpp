// Llama, Qwen2 and Mistral in GGUF files: the golden folders written as such files are the same
// models, and what a file asks for that a Llama does not do is refused.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "fuzz/gguf_formats.h"
#include "nn/pretrained.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/damage.h"
#include "support/gguf.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops.h>
#include <hero/nn/llama.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using hero_test::GGUFBuilder;
using hero_test::little_endian;
using test::Pretrained;

namespace {

std::string floats(const Array& array) {
  std::string bytes;
  for (const float value : array.to_vector<float>()) bytes += little_endian(value);
  return bytes;
}

// Rows of queries and keys as files of architecture llama have them: pairs of elements that turn
// together, i and i + D / 2, become neighbours.
Array neighbours(const Array& rows, int64_t heads) {
  const int64_t half = rows.size(0) / heads / 2;
  const Array out = rows.clone();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t k = 0; k < 2; ++k) {
        const Array from = rows.select(0, h * 2 * half + k * half + i).contiguous();
        const Array to = out.select(0, h * 2 * half + 2 * i + k);
        for (int64_t j = 0; j < from.numel(); ++j) to.data<float>()[j] = from.data<float>()[j];
      }
    }
  }
  return out;
}

std::string in_file(const std::string& name) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  std::string out = name;
  for (const auto& [from, to] : parts) {
    if (const size_t at = out.find(from); at != out.npos) out.replace(at, from.size(), to);
  }
  return out;
}

// The metadata that a model needs.
GGUFBuilder keys_of(const nn::LlamaConfig& c, const std::string& architecture) {
  const auto whole = [](int64_t value) { return static_cast<uint32_t>(value); };
  const std::string a = architecture + ".";
  GGUFBuilder file;
  file.text("general.architecture", architecture)
      .u32(a + "block_count", whole(c.num_hidden_layers))
      .u32(a + "context_length", whole(c.max_position_embeddings))
      .u32(a + "embedding_length", whole(c.hidden_size))
      .u32(a + "feed_forward_length", whole(c.intermediate_size))
      .u32(a + "attention.head_count", whole(c.num_attention_heads))
      .u32(a + "attention.head_count_kv", whole(*c.num_key_value_heads))
      .u32(a + "rope.dimension_count",
           whole(c.head_dim.value_or(c.hidden_size / c.num_attention_heads)))
      .f32(a + "rope.freq_base", static_cast<float>(c.rope_theta))
      .f32(a + "attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_norm_eps));
  if (c.head_dim) file.u32(a + "attention.key_length", whole(*c.head_dim));
  if (c.head_dim) file.u32(a + "attention.value_length", whole(*c.head_dim));
  return file;
}

void add_tensors(GGUFBuilder& file, const nn::Llama& model, const std::string& architecture) {
  const nn::LlamaConfig& c = model.config();
  for (const auto& [name, parameter] : model.named_parameters()) {
    Array values = parameter.array();
    if (architecture == "llama" && name.find("q_proj") != name.npos) {
      values = neighbours(values, c.num_attention_heads);
    } else if (architecture == "llama" && name.find("k_proj") != name.npos) {
      values = neighbours(values, *c.num_key_value_heads);
    }
    std::vector<uint64_t> sizes;
    for (int d = values.ndim() - 1; d >= 0; --d)
      sizes.push_back(static_cast<uint64_t>(values.size(d)));
    file.tensor(in_file(name), sizes, 0, floats(values));
  }
}

// Factors as the converter of Llama 3.1 computes them, by the length of a wave.
std::vector<float> llama3_factors(double base, int64_t dim, double factor, double original) {
  std::vector<float> factors;
  for (int64_t i = 0; i < dim; i += 2) {
    const double wave =
        2.0 * std::numbers::pi * std::pow(base, static_cast<double>(i) / static_cast<double>(dim));
    const double smooth = (original / wave - 1.0) / (4.0 - 1.0);
    double value = 1.0 / ((1.0 - smooth) / factor + smooth);
    if (wave < original / 4.0) value = 1.0;
    if (wave > original / 1.0) value = factor;
    factors.push_back(static_cast<float>(value));
  }
  return factors;
}

void add_factors(GGUFBuilder& file, const std::vector<float>& factors) {
  std::string bytes;
  for (const float one : factors) bytes += little_endian(one);
  file.tensor("rope_freqs.weight", {factors.size()}, 0, bytes);
}

}  // namespace

TEST_CASE("the models of folders are the same models in GGUF files", "[nn][gguf]") {
  const hero_test::TempDir dir;
  for (const char* name : {"llama", "mistral", "llama_linear", "llama3", "qwen2"}) {
    INFO(name);
    const Pretrained golden(name);
    const nn::Llama folder = nn::Llama::from_pretrained(golden.folder);
    const std::string architecture = std::string(name) == "qwen2" ? "qwen2" : "llama";
    const nn::LlamaConfig& c = folder.config();
    GGUFBuilder file = keys_of(c, architecture);
    file.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
    file.u32("tokenizer.ggml.eot_token_id", 7).u32("tokenizer.ggml.padding_token_id", 3);
    if (std::string(name) == "llama_linear") {
      file.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0F);
    }
    if (std::string(name) == "llama3") {
      file.u32("llama.rope.scaling.original_context_length", 16);
      add_factors(file, llama3_factors(500000.0, 8, 8.0, 16.0));
    }
    add_tensors(file, folder, architecture);
    hero_test::spill(dir / "x.gguf", file.bytes());
    nn::Llama model = nn::Llama::from_pretrained(dir / "x.gguf");
    const nn::StateDict a = model.state_dict(), b = folder.state_dict();
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].name);
      CHECK(a[i].name == b[i].name);
      CHECK(test::same(a[i].array, b[i].array));
    }
    const nn::LlamaConfig& read = model.config();
    CHECK(read.tie_word_embeddings == c.tie_word_embeddings);
    CHECK(read.qkv_bias == c.qkv_bias);
    CHECK(read.o_bias == c.o_bias);
    CHECK(read.mlp_bias == c.mlp_bias);
    CHECK(read.max_position_embeddings == c.max_position_embeddings);
    CHECK(read.rope_theta == c.rope_theta);
    CHECK(read.rope_scaling.kind == c.rope_scaling.kind);
    CHECK(read.rope_scaling.factor == c.rope_scaling.factor);
    CHECK(std::abs(read.rms_norm_eps - c.rms_norm_eps) < 1e-12);
    CHECK(read.token_ids == nn::TokenIds{.bos = 1, .eos = {2, 7}, .pad = 3});
    const NoGrad no_grad;
    model.eval();
    const Tensor logits = model(golden.at("tokens"));
    CHECK(max(abs(logits - golden.at("logits"))).item() < 1e-5 * max(abs(logits)).item());
    // The configuration alone, and other dtypes.
    CHECK(nn::LlamaConfig::from_pretrained(dir / "x.gguf").vocab_size == c.vocab_size);
    const nn::Llama half = nn::Llama::from_pretrained(dir / "x.gguf", {.dtype = kBFloat16});
    CHECK(test::same(half.state_dict()[1].array, b[1].array.to(kBFloat16)));
  }
}

TEST_CASE("a GGUF file asks for yarn as llama.cpp has it", "[nn][gguf]") {
  const hero_test::TempDir dir;
  nn::LlamaConfig c{.vocab_size = 8,
                    .hidden_size = 8,
                    .intermediate_size = 8,
                    .num_hidden_layers = 1,
                    .num_attention_heads = 2,
                    .num_key_value_heads = 1};
  GGUFBuilder file = keys_of(c, "qwen2");
  file.text("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4.0F);
  file.u32("qwen2.rope.scaling.original_context_length", 512);
  file.tensor("token_embd.weight", {8, 8}, 0, std::string(256, '\0'));
  hero_test::spill(dir / "x.gguf", file.bytes());
  const nn::RotaryScaling scaling = nn::LlamaConfig::from_pretrained(dir / "x.gguf").rope_scaling;
  CHECK(scaling.kind == nn::RotaryScaling::Kind::yarn);
  CHECK(scaling.factor == 4.0);
  CHECK(scaling.original_positions == 512);
  CHECK(scaling.beta_fast == 32.0);
  CHECK(scaling.beta_slow == 1.0);
}

TEST_CASE("a factor of rotary scaling without a type divides positions", "[nn][gguf]") {
  const hero_test::TempDir dir;
  const nn::LlamaConfig c{.vocab_size = 8,
                          .hidden_size = 8,
                          .intermediate_size = 8,
                          .num_hidden_layers = 1,
                          .num_attention_heads = 2,
                          .num_key_value_heads = 1};
  const auto scaling_with = [&](float factor) {
    GGUFBuilder file = keys_of(c, "llama");
    file.f32("llama.rope.scaling.factor", factor);
    file.tensor("token_embd.weight", {8, 8}, 0, std::string(256, '\0'));
    hero_test::spill(dir / "x.gguf", file.bytes());
    return nn::LlamaConfig::from_pretrained(dir / "x.gguf").rope_scaling;
  };
  CHECK(scaling_with(4.0F).kind == nn::RotaryScaling::Kind::linear);
  CHECK(scaling_with(4.0F).factor == 4.0);
  CHECK(scaling_with(1.0F).kind == nn::RotaryScaling::Kind::none);
  CHECK(scaling_with(0.0F).kind == nn::RotaryScaling::Kind::none);
}

TEST_CASE("what a GGUF file asks for that a Llama does not do is refused by name", "[nn][gguf]") {
  const hero_test::TempDir dir;
  const Pretrained golden("llama");
  const nn::Llama folder = nn::Llama::from_pretrained(golden.folder);
  const auto file_of = [&](const auto& change) {
    GGUFBuilder file = keys_of(folder.config(), "llama");
    change(file);
    add_tensors(file, folder, "llama");
    return file.bytes();
  };
  const auto error_with = [&](const std::string& bytes, const nn::PretrainedOptions& options = {}) {
    hero_test::spill(dir / "x.gguf", bytes);
    return test::error_of([&] { nn::Llama::from_pretrained(dir / "x.gguf", options); });
  };
  const auto refuses = [&](const auto& change, const char* what) {
    CHECK_THAT(error_with(file_of(change)), ContainsSubstring(what));
  };
  using B = GGUFBuilder;
  CHECK(error_with(file_of([](B&) {})).empty());
  refuses(
      [](B& b) {
        b.text("llama.rope.scaling.type", "longrope").f32("llama.rope.scaling.factor", 2);
      },
      "llama.rope.scaling.type is longrope; of the types of rotary scaling none, linear and yarn");
  refuses(
      [](B& b) { b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 2); },
      "llama.rope.scaling.original_context_length is 0; yarn needs it");
  refuses([](B& b) { b.f32("llama.rope.scaling.attn_factor", 2); },
          "llama.rope.scaling.attn_factor is 2; only 1 is known");
  refuses(
      [](B& b) {
        add_factors(b, {1.0F, 1.5F, 8.0F});
      },
      "the factors in rope_freqs.weight are not those of Llama 3's rule for 8192 positions");
  refuses([](B& b) { add_factors(b, {1.0F}); },
          "the factors in rope_freqs.weight are 1, and heads of 6 elements have 3 pairs");
  refuses([](B& b) { b.u32("llama.expert_count", 8); },
          "llama.expert_count is 8; nn::Llama has no experts");
  refuses(
      [](B& b) { b.u32("llama.attention.sliding_window", 16); },
      "llama.attention.sliding_window is 16; nn::Llama attends to all positions, of which there "
      "are 48");
  refuses([](B& b) { b.u32("llama.vocab_size", 62); },
          "llama.vocab_size is 62; token_embd.weight has 61 rows");
  refuses([](B& b) { b.f32("llama.logit_scale", 2); },
          "has keys that are not known here: llama.logit_scale; name those in .ignore_keys");
  refuses([](B& b) { b.key("split.count", B::kU16, little_endian<uint16_t>(3)); },
          "is one of 3 files of a model; merge them");
  refuses([](B& b) { b.tensor("blk.0.ffn_gate_inp.weight", {1}, 0, little_endian(1.0F)); },
          "unexpected: blk.0.ffn_gate_inp.weight");
  refuses([](B& b) { b.u32("tokenizer.ggml.eos_token_id", 61); },
          "tokenizer.ggml.eos_token_id is 61, and token_embd.weight has 61 rows");
  refuses([](B& b) { b.u32("tokenizer.ggml.eot_token_id", UINT32_MAX); },
          "tokenizer.ggml.eot_token_id is 4294967295");
  refuses([](B& b) { b.u32("tokenizer.ggml.bos_token_id", 70); },
          "tokenizer.ggml.bos_token_id is 70");
  CHECK(error_with(file_of([](B& b) { b.u32("tokenizer.ggml.eos_token_id", 60); })).empty());
  refuses([](B& b) { b.texts("tokenizer.ggml.tokens", std::vector<std::string>(62, "a")); },
          "has 62 tokens, and token_embd.weight has 61 rows");
  CHECK(error_with(B().text("general.architecture", "llama")
                       .u32("llama.block_count", 1)
                       .u32("llama.context_length", 8)
                       .u32("llama.embedding_length", 4)
                       .u32("llama.feed_forward_length", 4)
                       .u32("llama.attention.head_count", 1)
                       .tensor("token_embd.weight", {4, 8}, 0, std::string(128, '\0'))
                       .bytes())
            .ends_with("has no key llama.attention.layer_norm_rms_epsilon"));
  CHECK(error_with(file_of([](B& b) { b.f32("llama.logit_scale", 1); }),
                   {.ignore_keys = {"llama.logit_scale"}})
            .empty());
  CHECK_THAT(error_with(B().text("general.architecture", "gemma2").bytes()),
             ContainsSubstring("holds the architecture 'gemma2'; nn::Llama reads llama and qwen2"));
  CHECK_THAT(error_with(B().bytes()), ContainsSubstring("has no key general.architecture"));
  CHECK_THAT(error_with("{}"), ContainsSubstring("gguf"));

  // other sizes, other types, nothing at all
  GGUFBuilder file = keys_of(folder.config(), "llama");
  file.tensor("token_embd.weight", {24, 61}, 0, std::string(size_t{24} * 61 * 4, '\0'));
  file.tensor("output.weight", {61, 24}, 0, std::string(size_t{24} * 61 * 4, '\0'));
  file.tensor("output_norm.weight", {24}, 17, std::string(74, '\0'));
  const std::string all = error_with(file.bytes());
  CHECK_THAT(all, ContainsSubstring("missing: blk.0.attn_q.weight"));
  CHECK_THAT(all, ContainsSubstring("output.weight [24, 61] instead of [61, 24]"));
  CHECK_THAT(all, ContainsSubstring("output_norm.weight is IQ2_XS"));
  GGUFBuilder many = keys_of({.hidden_size = 24,
                              .num_hidden_layers = 2000000000,
                              .num_attention_heads = 4,
                              .num_key_value_heads = 2},
                             "llama");
  many.tensor("token_embd.weight", {24, 61}, 0, std::string(size_t{24} * 61 * 4, '\0'));
  CHECK_THAT(error_with(many.bytes()),
             ContainsSubstring("llama.block_count is 2000000000, and there are only 1 tensors"));
}

TEST_CASE("damaged models in GGUF load or are refused, nothing else", "[nn][gguf][fuzz]") {
  const Pretrained golden("llama3");
  const nn::Llama folder = nn::Llama::from_pretrained(golden.folder);
  GGUFBuilder file = keys_of(folder.config(), "llama");
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  std::vector<std::string> tokens, merges = {"a b"};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  tokens.emplace_back("ab");
  file.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges);
  add_tensors(file, folder, "llama");
  const std::vector<std::string> seeds = {file.bytes()};
  CHECK(hero_fuzz::feed_gguf_model(std::as_bytes(std::span(seeds[0]))));
  const int valid = hero_test::damage_and_feed(seeds, 2000, hero_fuzz::feed_gguf_model);
  CHECK(valid > 20);
  CHECK(valid < 1900);
}
