#pragma once
// Llama: a Transformer that reads from left to right, with RMS norms, rotary positions, gated
// feed-forward layers and fewer heads of keys and values than of queries. Touvron et al., arXiv
// 2302.13971; Dubey et al., arXiv 2407.21783. B batch, T time, C hidden size, V vocabulary.
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/offload.h>
#include <hero/nn/container.h>
#include <hero/nn/embedding.h>
#include <hero/nn/generate.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/pretrained.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

/// Sizes and choices under the names that config.json has for them.
struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  ///< num_attention_heads when absent
  std::optional<int64_t> head_dim = {};    ///< hidden_size / num_attention_heads when absent
  int64_t max_position_embeddings = 2048;  ///< longest sequence
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RotaryScaling rope_scaling = {};
  bool tie_word_embeddings = false;  ///< lm_head.weight is model.embed_tokens.weight
  bool qkv_bias = false;             ///< of q_proj, k_proj and v_proj, as Qwen2 has them
  bool o_bias = false;               ///< of o_proj; with qkv_bias transformers' attention_bias
  bool mlp_bias = false;
  double initializer_range = 0.02;  ///< deviation of the first values of all matrices
  bool checkpoint = false;          ///< layers keep only their input for backward and run twice
  /// What layers keep for backward lies elsewhere until then, see offload(); absent: it stays.
  std::optional<OffloadOptions> offload = {};

  /// What folder/config.json says, as Llama::from_pretrained() reads it. With
  /// dist::load_full(folder, ..), which reads the weights, a model that was made on meta and
  /// sharded is loaded without being whole anywhere.
  static LlamaConfig from_pretrained(const std::string& folder,
                                     const PretrainedOptions& options = {});
  /// Writes folder/config.json for weights of that dtype, which dist::save_full(folder, ..) writes.
  void save_pretrained(const std::string& folder, DType dtype = kFloat32) const;
};

/// Attention of each position to itself and those before it. Children: q_proj [H D, C], k_proj and
/// v_proj [H_kv D, C], o_proj [C, H D].
class LlamaAttention : public Module {
 public:
  using Options = LlamaConfig;
  explicit LlamaAttention(const LlamaConfig& config);
  using Module::operator();
  /// x [B, T, C] at the new positions of the cache, whose layer this is.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Where the projections give some heads alone, as a rank's part of them does
  /// (dist::tensor_parallel), it attends with these.
  Tensor forward(const Tensor& x) override;
  int64_t num_heads() const { return heads_; }
  int64_t num_key_value_heads() const { return kv_heads_; }

  Linear &q_proj, &k_proj, &v_proj, &o_proj;
  RotaryEmbedding& rotary_emb;

 private:
  struct Past {
    KeyValueCache& cache;
    size_t layer;
  };
  Tensor run(const Tensor& x, const Past* past);

  int64_t heads_, kv_heads_, dim_;
};

/// down_proj(silu(gate_proj(x)) * up_proj(x)). Shazeer, arXiv 2002.05202.
class LlamaMLP : public Module {
 public:
  using Options = LlamaConfig;
  explicit LlamaMLP(const LlamaConfig& config);
  Tensor forward(const Tensor& x) override;

  Linear &gate_proj, &up_proj, &down_proj;
};

/// One layer: x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
class LlamaDecoderLayer : public Module {
 public:
  using Options = LlamaConfig;
  explicit LlamaDecoderLayer(const LlamaConfig& config);
  using Module::operator();
  /// As LlamaAttention's.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  RMSNorm& first_norm() { return input_layernorm; }
  /// From x and its norm by input_layernorm to the layer's result and its norm by `next`: the
  /// residual's sums and norms are one operation each, between layers too.
  SumAndNorm operator()(const SumAndNorm& x, RMSNorm& next);
  Tensor forward(const Tensor& x) override;

  LlamaAttention& self_attn;
  LlamaMLP& mlp;
  RMSNorm &input_layernorm, &post_attention_layernorm;
};

/// Names, order and layouts are those of transformers' LlamaForCausalLM, Qwen2ForCausalLM
/// (qkv_bias) and MistralForCausalLM without a window: model.embed_tokens,
/// model.layers.0.{self_attn.{q_proj, k_proj, v_proj, o_proj}, mlp.{gate_proj, up_proj, down_proj},
/// input_layernorm, post_attention_layernorm}, model.norm, lm_head. First values are normal with
/// deviation initializer_range, biases 0. As a chain it has num_hidden_layers + 2 links: the
/// embedding of tokens [B, T], each layer, and norm with lm_head.
/// \snippet test_examples_models.cpp Llama
class Llama : public Module, public DecoderChain {
 public:
  using Options = LlamaConfig;
  /// An Error unless sizes are positive and heads and sizes divide.
  explicit Llama(const LlamaConfig& config);

  /// tokens [B, T] or [T], int64, T at most max_position_embeddings: scores of the next token at
  /// each position, [B, T, V] or [T, V].
  Tensor forward(const Tensor& tokens) override;
  /// The mean cross entropy of the scores with targets of tokens' shape, of which -100 is ignored,
  /// by linear_cross_entropy: the scores never exist as a whole unless lm_head has hooks for
  /// values.
  Tensor loss(const Tensor& tokens, const Tensor& targets);

  /// The model in a folder of Hugging Face's transformers: config.json and model.safetensors, or
  /// the files that model.safetensors.index.json names; of the types llama, qwen2 and mistral. An
  /// Error that names what is missing, superfluous or mis-shaped, and what of the configuration a
  /// Llama does not have.
  static Llama from_pretrained(const std::string& folder, const PretrainedOptions& options = {});
  /// Writes such a folder, which from_pretrained() and transformers read: of type qwen2 where
  /// qkv_bias alone is set, else of type llama.
  void save_pretrained(const std::string& folder, const SavePretrainedOptions& options = {}) const;

  const LlamaConfig& config() const { return config_; }

  int64_t context_length() const override { return config_.max_position_embeddings; }
  Tensor next_scores(const Tensor& tokens, KeyValueCache& cache) override;

  /// \name As a chain
  /// \{
  Module& root() override { return *this; }
  size_t links() const override { return model.layers.size() + 2; }
  Tensor run_links(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t link) override;
  Tensor run_links_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) override;
  /// \}

  /// All but the last projection; names only.
  class Body : public Module {
   public:
    using Options = LlamaConfig;
    explicit Body(const LlamaConfig& config);
    std::string type_name() const override { return "LlamaModel"; }
    Embedding& embed_tokens;
    ModuleListOf<LlamaDecoderLayer>& layers;
    RMSNorm& norm;
  };
  Body& model;
  Linear& lm_head;

 private:
  Tensor checked_tokens(const Tensor& tokens) const;
  Tensor run_range(const Tensor& x, size_t begin, size_t end, bool with_norm);
  Tensor features_from(size_t begin, const Tensor& x);
  void init_parameters();

  LlamaConfig config_;
};

}  // namespace hero::nn
