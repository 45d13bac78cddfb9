// Layers and models whose weights stay quantised: what they compute is what the dequantised weights
// give, and what they cannot do is an Error.
#include <cmath>
#include <string>
#include <vector>

#include "nn/pretrained.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/gguf.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops.h>
#include <hero/core/io/file.h>
#include <hero/core/quantized.h>
#include <hero/nn/linear.h>
#include <hero/nn/llama.h>
#include <hero/nn/lora.h>
#include <hero/nn/norm.h>
#include <hero/nn/quantized.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using core::QuantizedMatrix;
using hero_test::GGUFBuilder;
using hero_test::TempDir;

namespace {

double off(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item() / std::max(max(abs(b)).item(), 1e-30);
}

nn::LlamaConfig small_llama(bool tied) {
  return {.vocab_size = 96,
          .hidden_size = 64,
          .intermediate_size = 160,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 40,
          .tie_word_embeddings = tied,
          .initializer_range = 0.2};
}

// What a file calls a parameter.
std::string name_in_file(std::string name) {
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
  for (const auto& [from, to] : parts) {
    if (const size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
  }
  return name;
}

std::string bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.bytes()), static_cast<size_t>(array.nbytes())};
}

// A file of architecture llama with matrices of different types; its rows of queries and keys are
// taken as they come.
std::string quantised_file(const nn::Llama& model) {
  const nn::LlamaConfig& c = model.config();
  const auto whole = [](int64_t value) { return static_cast<uint32_t>(value); };
  GGUFBuilder file;
  file.text("general.architecture", "llama")
      .u32("llama.block_count", whole(c.num_hidden_layers))
      .u32("llama.context_length", whole(c.max_position_embeddings))
      .u32("llama.embedding_length", whole(c.hidden_size))
      .u32("llama.feed_forward_length", whole(c.intermediate_size))
      .u32("llama.attention.head_count", whole(c.num_attention_heads))
      .u32("llama.attention.head_count_kv", whole(*c.num_key_value_heads))
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Array values = parameter.array().contiguous();
    std::vector<uint64_t> sizes;
    for (int d = values.ndim() - 1; d >= 0; --d) {
      sizes.push_back(static_cast<uint64_t>(values.size(d)));
    }
    if (values.ndim() == 1 || name.find("v_proj") != name.npos) {  // one matrix stays float32
      file.tensor(name_in_file(name), sizes, 0, bytes_of(values));
      continue;
    }
    const bool table = name.find("embed") != name.npos, down = name.find("down") != name.npos;
    const QuantizedMatrix matrix = QuantizedMatrix::from(values, table  ? "Q8_0"
                                                                 : down ? "Q4_0"
                                                                        : "Q4_1");
    file.tensor(name_in_file(name), sizes, table ? 8 : down ? 2 : 3, bytes_of(matrix.blocks()));
  }
  return file.bytes();
}

}  // namespace

TEST_CASE("a quantised layer computes with the numbers of its blocks", "[nn][quantized]") {
  manual_seed(3);
  for (const bool bias : {true, false}) {
    nn::Linear plain(96, 40, {.bias = bias});
    const QuantizedMatrix matrix = QuantizedMatrix::from(plain.weight.array(), "Q4_1");
    nn::QuantizedLinear layer(matrix, {.bias = bias});
    if (bias) layer.bias = plain.bias;
    const NoGrad no_grad;
    plain.weight.set_data(matrix.values());
    const Tensor x = randn({3, 5, 96});
    const Tensor y = layer(x);
    CHECK(y.shape() == Shape{3, 5, 40});
    CHECK(off(y, plain(x)) < 1e-6);
    CHECK(layer.named_parameters().size() == (bias ? 1 : 0));
    CHECK(layer.named_buffers()[0].first == "weight_q4_1");
    CHECK(layer.weight().type() == std::string("Q4_1"));
    CHECK_THAT(layer.extra_repr(), ContainsSubstring("in_features=96, out_features=40"));
    // A state has the blocks and goes to a layer of the same type alone.
    nn::QuantizedLinear other(QuantizedMatrix::from(zeros({40, 96}).array(), "Q4_1"),
                              {.bias = bias});
    other.load_state_dict(layer.state_dict());
    CHECK(test::same(other(x).array(), y.array()));
    nn::QuantizedLinear wrong(QuantizedMatrix::from(zeros({40, 96}).array(), "Q4_0"),
                              {.bias = bias});
    CHECK_THROWS_AS(wrong.load_state_dict(layer.state_dict()), Error);
  }
}

TEST_CASE("a quantised layer refuses gradients and other devices", "[nn][quantized]") {
  nn::QuantizedLinear layer(QuantizedMatrix::from(zeros({8, 32}).array(), "Q8_0"), {.bias = false});
  const Tensor x = ones({2, 32}, {.requires_grad = true});
  CHECK_THROWS_WITH(layer(x), ContainsSubstring("a quantised weight gives no gradients"));
  {
    const NoGrad no_grad;
    CHECK(layer(x).shape() == Shape{2, 8});
  }
  CHECK_THROWS_WITH(layer(ones({2, 31})), ContainsSubstring("expected [.., 32], got [2, 31]"));
  CHECK_THROWS_WITH(layer(ones({2, 32}).to(kMeta)), ContainsSubstring("on the cpu alone"));
  nn::QuantizedEmbedding table(QuantizedMatrix::from(ones({8, 32}).array(), "Q8_0"), kBFloat16);
  CHECK(table(tensor(std::vector<int64_t>{1, 7})).dtype() == kBFloat16);
  CHECK_THROWS_WITH(table(tensor(std::vector<int64_t>{8})),
                    ContainsSubstring("row 8 is outside [0, 8)"));
  CHECK_THROWS_WITH(table(ones({2})), ContainsSubstring("expected row numbers"));
}

TEST_CASE("models of GGUF files with quantised weights are the dequantised models",
          "[nn][quantized][gguf]") {
  const TempDir dir;
  for (const bool tied : {true, false}) {
    INFO(tied);
    manual_seed(5);
    const nn::Llama origin(small_llama(tied));
    hero_test::spill(dir / "x.gguf", quantised_file(origin));
    nn::Llama plain = nn::Llama::from_pretrained(dir / "x.gguf");
    nn::Llama model = nn::Llama::from_pretrained(dir / "x.gguf", {.quantized = true});
    plain.eval();
    model.eval();
    // Norms and the matrix that is not quantised remain parameters.
    CHECK(model.named_parameters().size() == 7);
    for (const Tensor& parameter : model.parameters()) CHECK(!parameter.requires_grad());
    const Tensor tokens = tensor(std::vector<int64_t>{1, 95, 3, 44, 5, 0, 7, 81}).reshape({2, 4});
    const Tensor logits = model(tokens);
    CHECK(off(logits, plain(tokens)) < 1e-5);
    CHECK(std::abs((model.loss(tokens, tokens) - plain.loss(tokens, tokens)).item()) < 1e-4);
    const Tensor prompt = tensor(std::vector<int64_t>{9, 2, 60});
    const nn::GenerateOptions likeliest{.max_new_tokens = 20, .temperature = 0.0};
    CHECK(model.generate(prompt, likeliest).to_vector<int64_t>() ==
          plain.generate(prompt, likeliest).to_vector<int64_t>());
    // Rows that are generated together are those that each gives alone.
    const std::vector<Tensor> prompts = {prompt, tensor(std::vector<int64_t>{3}),
                                         tensor(std::vector<int64_t>{4, 4, 4, 4, 4, 4})};
    const std::vector<Tensor> together = model.generate(prompts, likeliest);
    for (size_t i = 0; i < prompts.size(); ++i) {
      CHECK(together[i].to_vector<int64_t>() ==
            model.generate(prompts[i], likeliest).to_vector<int64_t>());
    }
    // bfloat16 activations
    nn::Llama half =
        nn::Llama::from_pretrained(dir / "x.gguf", {.dtype = kBFloat16, .quantized = true});
    half.eval();
    const Tensor rough = half(tokens);
    CHECK(rough.dtype() == kBFloat16);
    CHECK(off(rough.to(kFloat32), logits) < 0.1);
    half.to(kFloat32);
    CHECK(half(tokens).dtype() == kFloat32);

    const std::string folder = dir / "folder";
    CHECK_THROWS_WITH(model.save_pretrained(folder), ContainsSubstring("is quantised"));
    CHECK(!path_exists(folder));
    CHECK_THROWS_AS(nn::add_lora(model, {.targets = {"q_proj"}}), Error);
  }
  const test::Pretrained golden("llama");
  CHECK_THROWS_WITH(nn::Llama::from_pretrained(golden.folder, {.quantized = true}),
                    ContainsSubstring("has no quantised weights"));
}

TEST_CASE("a tied weight is in memory once where it is quantised", "[nn][quantized]") {
  const TempDir dir;
  manual_seed(5);
  hero_test::spill(dir / "x.gguf", quantised_file(nn::Llama(small_llama(true))));
  nn::Llama model = nn::Llama::from_pretrained(dir / "x.gguf", {.quantized = true});
  std::vector<const std::byte*> tables;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (name.ends_with("weight_q8_0")) tables.push_back(buffer.array().bytes());
  }
  REQUIRE(tables.size() == 2);
  CHECK(tables[0] == tables[1]);
}

TEST_CASE("a model's layers are quantised in place", "[nn][quantized]") {
  for (const bool tied : {true, false}) {
    for (const char* type : {"Q8_0", "Q4_0", "Q4_1"}) {
      INFO(tied << " " << type);
      manual_seed(7);
      nn::Llama plain(small_llama(tied)), model(small_llama(tied));
      model.load_state_dict(plain.state_dict());
      plain.eval();
      model.eval();
      const int64_t count = nn::quantize_linear(model, type);
      CHECK(count == 2 * 7 + 1 + (tied ? 1 : 0));
      const NoGrad no_grad;
      for (const auto& [name, module] : plain.named_modules()) {
        auto* linear = dynamic_cast<nn::Linear*>(module);
        if (linear == nullptr) continue;
        linear->weight.set_data(QuantizedMatrix::from(linear->weight.array(), type).values());
      }
      const Tensor tokens = tensor(std::vector<int64_t>{1, 95, 3, 44}).reshape({1, 4});
      CHECK(off(model(tokens), plain(tokens)) < 1e-5);
      // What the old layers held is gone: only norms, and a table of its own, are left.
      CHECK(model.parameters().size() == (tied ? 5 : 6));
      CHECK(model.lm_head.weight.device() == kMeta);
    }
  }
}

TEST_CASE("what cannot be quantised is refused, and the model stays as it is", "[nn][quantized]") {
  manual_seed(1);
  nn::Sequential net{nn::Linear(64, 30), nn::Linear(30, 64), nn::Linear(64, 8)};
  const Tensor x = randn({2, 64});
  CHECK_THROWS_WITH(nn::quantize_linear(net, "Q4_K"), ContainsSubstring("come from files"));
  auto handle =
      net[2].register_forward_hook([](nn::Module&, const nn::Tensors&, const nn::Tensors&) {});
  CHECK_THROWS_WITH(nn::quantize_linear(net, "Q8_0"), ContainsSubstring("2 has hooks"));
  CHECK(net.parameters().size() == 6);
  CHECK(net(x).shape() == Shape{2, 8});
  nn::Linear alone(32, 4);
  CHECK_THROWS_WITH(nn::quantize_linear(alone, "Q8_0"), ContainsSubstring("the model is a"));
  nn::Sequential small{nn::Linear(30, 4)};
  CHECK_THROWS_WITH(nn::quantize_linear(small, "Q8_0"), ContainsSubstring("has no Linear whose"));
  nn::Sequential adapted{nn::Linear(64, 4)};
  nn::add_lora(adapted, {.targets = {"0"}});
  CHECK_THROWS_WITH(nn::quantize_linear(adapted, "Q8_0"), ContainsSubstring("an adapter"));
  nn::Sequential mixed{nn::Linear(64, 30), nn::Linear(30, 8)};  // the second has no whole blocks
  CHECK(nn::quantize_linear(mixed, "Q8_0") == 1);
  const NoGrad no_grad;
  CHECK(mixed(x).shape() == Shape{2, 8});
}
