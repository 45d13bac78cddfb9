// Writes folders of models for transformers to read; see pretrained.py.
//   pretrained copy gpt|llama FROM TO DTYPE TOKENS SCORES
//   pretrained new gpt|llama TO DTYPE TOKENS SCORES [bias|tied|grouped]
// reads or makes a model, writes it as a folder, in files of 30 kB at most, and writes what the
// model computes from tokens (safetensors, "tokens" [B, T]) as "logits", float32.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hero/autograd/ops.h>
#include <hero/core/random.h>
#include <hero/core/safetensors.h>
#include <hero/nn/gpt.h>
#include <hero/nn/init.h>
#include <hero/nn/llama.h>

using namespace hero;

namespace {

DType dtype_named(const std::string& name) {
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    if (hero::name(dtype) == name) return dtype;
  }
  fail("pretrained: unknown dtype ", name);
}

// No weight is trivial: norms are not 1, biases not 0.
void randomize(nn::Module& model) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Tensor noise = randn(parameter.shape());
    parameter.copy_(parameter.ndim() == 1 ? 1.0 + 0.1 * noise : 0.3 * noise);
  }
}

nn::GPT new_gpt(const std::string& kind) {
  nn::GPTConfig config{.vocab_size = 61, .block_size = 48, .n_layer = 2, .n_head = 3, .n_embd = 24};
  config.gelu = kind == "tied" ? Gelu::erf : Gelu::tanh;
  config.tie_weights = kind != "bias";
  return nn::GPT(config);
}

nn::Llama new_llama(const std::string& kind) {
  nn::LlamaConfig config{.vocab_size = 61,
                         .hidden_size = 24,
                         .intermediate_size = 40,
                         .num_hidden_layers = 2,
                         .num_attention_heads = 4,
                         .max_position_embeddings = 48};
  config.tie_word_embeddings = kind == "tied";
  if (kind == "grouped") {
    config.num_key_value_heads = 2;
    config.head_dim = 8;
    config.rope_scaling = {.kind = nn::RotaryScaling::Kind::llama3, .original_positions = 16};
  }
  config.qkv_bias = config.o_bias = config.mlp_bias = kind == "bias";
  return nn::Llama(config);
}

template <class Model>
void write(Model model, const std::string& to, const std::string& dtype, const char* tokens,
           const char* scores) {
  model.to(dtype_named(dtype));
  model.save_pretrained(to, {.max_shard_bytes = 30000});
  model.to(kFloat32);
  model.eval();
  const NoGrad no_grad;
  const Tensor logits = model(Tensor(core::load_safetensors(tokens).at("tokens")));
  const std::vector<core::NamedArray> results{{"logits", logits.array().contiguous()}};
  core::save_safetensors(scores, results);
}

template <class Model>
Model made(Model model) {
  randomize(model);
  return model;
}

int run(int argc, char** argv) {
  if (argc < 7) return 2;
  const bool copies = std::strcmp(argv[1], "copy") == 0, gpt = std::strcmp(argv[2], "gpt") == 0;
  manual_seed(5);
  if (copies) {
    const std::string from = argv[3];
    gpt ? write(nn::GPT::from_pretrained(from), argv[4], argv[5], argv[6], argv[7])
        : write(nn::Llama::from_pretrained(from), argv[4], argv[5], argv[6], argv[7]);
    return 0;
  }
  const std::string kind = argc > 7 ? argv[7] : "";
  gpt ? write(made(new_gpt(kind)), argv[3], argv[4], argv[5], argv[6])
      : write(made(new_llama(kind)), argv[3], argv[4], argv[5], argv[6]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
