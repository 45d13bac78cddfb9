#include <algorithm>

#include <hero/nn/llama.h>

namespace hero::nn {

namespace {

CausalLMNames llama_names() {
  return {.model = "Llama",
          .context_length = "max_position_embeddings",
          .body = "model",
          .body_type = "LlamaModel",
          .tokens = "embed_tokens",
          .blocks = "layers",
          .last_norm = "norm",
          .block_type = "LlamaDecoderLayer",
          .norm_1 = "input_layernorm",
          .norm_2 = "post_attention_layernorm",
          .attention = "self_attn",
          .attention_type = "LlamaAttention",
          .mlp = "mlp",
          .mlp_type = "LlamaMLP",
          .norms_last = true,
          .projections = {{"q_proj", {Heads::queries}},
                          {"k_proj", {Heads::keys}},
                          {"v_proj", {Heads::values}}},
          .attention_out = "o_proj",
          .rotary = "rotary_emb",
          .gate = "gate_proj",
          .up = "up_proj",
          .down = "down_proj"};
}

const LlamaConfig& checked_llama(const LlamaConfig& c) {
  check(c.vocab_size > 0 && c.hidden_size > 0 && c.intermediate_size > 0 &&
            c.num_hidden_layers > 0 && c.num_attention_heads > 0 && c.max_position_embeddings > 0,
        "Llama: sizes must be positive: vocab_size ", c.vocab_size, ", hidden_size ", c.hidden_size,
        ", intermediate_size ", c.intermediate_size, ", num_hidden_layers ", c.num_hidden_layers,
        ", num_attention_heads ", c.num_attention_heads, ", max_position_embeddings ",
        c.max_position_embeddings);
  check(c.head_dim || c.hidden_size % c.num_attention_heads == 0, "Llama: num_attention_heads ",
        c.num_attention_heads, " does not divide hidden_size ", c.hidden_size, "; give a head_dim");
  const int64_t dim = c.head_dim.value_or(c.hidden_size / c.num_attention_heads);
  check(dim > 0 && dim % 2 == 0, "Llama: head_dim is ", dim,
        "; it must be even and positive, as pairs of elements turn");
  const int64_t kv = c.num_key_value_heads.value_or(c.num_attention_heads);
  check(kv > 0 && c.num_attention_heads % kv == 0, "Llama: num_key_value_heads ", kv,
        " does not divide num_attention_heads ", c.num_attention_heads);
  return c;
}

}  // namespace

LlamaConfig::operator CausalLMConfig() const {
  const double longest = static_cast<double>(max_position_embeddings) * rope_scaling.factor;
  const bool grows = rope_scaling.kind == RotaryScaling::Kind::dynamic;
  return {.vocab_size = vocab_size,
          .context_length =
              grows ? static_cast<int64_t>(std::min(0x1p53, longest)) : max_position_embeddings,
          .layers = num_hidden_layers,
          .heads = num_attention_heads,
          .width = hidden_size,
          .kv_heads = num_key_value_heads,
          .head_dim = head_dim,
          .inner_width = intermediate_size,
          .gated = true,
          .rotary = RotaryOptions{.base = rope_theta, .scaling = rope_scaling},
          .rms_norm = true,
          .norm_eps = rms_norm_eps,
          .qkv_bias = qkv_bias,
          .attention_bias = o_bias,
          .mlp_bias = mlp_bias,
          .tie_weights = tie_word_embeddings,
          .init_std = initializer_range,
          .checkpoint = checkpoint,
          .offload = offload,
          .names = llama_names()};
}

Llama::Llama(const LlamaConfig& config)
    : CausalLM(checked_llama(config)),
      model{body.tokens, body.blocks, static_cast<RMSNorm&>(body.norm)},
      config_(config) {}

}  // namespace hero::nn
