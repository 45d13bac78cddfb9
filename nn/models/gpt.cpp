#include <cmath>

#include <hero/nn/gpt.h>

namespace hero::nn {

namespace {

const GPTConfig& checked_gpt(const GPTConfig& c) {
  check(c.vocab_size > 0 && c.block_size > 0 && c.n_layer > 0 && c.n_head > 0 && c.n_embd > 0,
        "GPT: sizes must be positive: vocab_size ", c.vocab_size, ", block_size ", c.block_size,
        ", n_layer ", c.n_layer, ", n_head ", c.n_head, ", n_embd ", c.n_embd);
  check(c.n_embd % c.n_head == 0, "GPT: n_head ", c.n_head, " does not divide n_embd ", c.n_embd);
  const int64_t kv = c.n_kv_head.value_or(c.n_head);
  check(kv > 0 && c.n_head % kv == 0, "GPT: n_kv_head ", kv, " does not divide n_head ", c.n_head);
  return c;
}

}  // namespace

GPTConfig::operator CausalLMConfig() const {
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
    : CausalLM(checked_gpt(config)),
      transformer{body.tokens, body.positions, body.blocks, static_cast<LayerNorm&>(body.norm)},
      config_(config) {}

}  // namespace hero::nn
