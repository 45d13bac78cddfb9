#include <cmath>

#include <hero/nn/gpt.h>

namespace hero::nn {

GPTConfig::operator CausalLMConfig() const {
  check(vocab_size > 0 && block_size > 0 && n_layer > 0 && n_head > 0 && n_embd > 0,
        "GPT: sizes must be positive: vocab_size ", vocab_size, ", block_size ", block_size,
        ", n_layer ", n_layer, ", n_head ", n_head, ", n_embd ", n_embd);
  check(n_embd % n_head == 0, "GPT: n_head ", n_head, " does not divide n_embd ", n_embd);
  const int64_t kv = n_kv_head.value_or(n_head);
  check(kv > 0 && n_head % kv == 0, "GPT: n_kv_head ", kv, " does not divide n_head ", n_head);
  return {.vocab_size = vocab_size,
          .context_length = block_size,
          .layers = n_layer,
          .heads = n_head,
          .width = n_embd,
          .kv_heads = n_kv_head,
          .gelu = gelu,
          .rotary = rotary ? std::optional<RotaryOptions>(RotaryOptions()) : std::nullopt,
          .norm_eps = norm_eps,
          .norm_bias = bias,
          .qkv_bias = bias,
          .attention_bias = bias,
          .mlp_bias = bias,
          .dropout = dropout,
          .tie_weights = tie_weights,
          .residual_init_std = 0.02 / std::sqrt(2.0 * static_cast<double>(n_layer)),
          .checkpoint = checkpoint,
          .offload = offload,
          .names = {.model = "GPT", .context_length = "the block size"}};
}

GPT::GPT(const GPTConfig& config)
    : CausalLM(config),
      transformer{body.tokens, body.positions, body.blocks, static_cast<LayerNorm&>(body.norm)},
      config_(config) {}

}  // namespace hero::nn
