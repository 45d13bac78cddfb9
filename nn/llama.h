#pragma once
// Llama: a Transformer decoder with RMS norms, rotary embedding, gated feed-forward layers, and
// fewer heads of keys and values than of queries. Touvron et al., arXiv
// 2302.13971; Dubey et al., arXiv 2407.21783. B batch, T time, C hidden size, V vocabulary.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/offload/offload.h>
#include <hero/nn/container.h>
#include <hero/nn/embedding.h>
#include <hero/nn/generate.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/parallel_form.h>
#include <hero/nn/pretrained.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

/// Sizes and options of a Llama, under the names that they have in config.json.
struct LlamaConfig {
  int64_t vocab_size = 32000;         ///< tokens in the vocabulary, V
  int64_t hidden_size = 4096;         ///< features of a token, C
  int64_t intermediate_size = 11008;  ///< width of the feed-forward layers
  int64_t num_hidden_layers = 32;     ///< layers
  int64_t num_attention_heads = 32;   ///< heads of queries, H
  /// Heads of keys and values, H_kv; H when absent.
  std::optional<int64_t> num_key_value_heads = {};
  std::optional<int64_t> head_dim = {};    ///< size of a head, D; C / H when absent
  int64_t max_position_embeddings = 2048;  ///< length of the longest sequence
  double rms_norm_eps = 1e-6;              ///< added to the mean square in the norms
  double rope_theta = 10000.0;             ///< base of the rotary embedding
  RotaryScaling rope_scaling = {};         ///< changes its rates, for longer sequences
  bool tie_word_embeddings = false;        ///< true: lm_head.weight is model.embed_tokens.weight
  bool qkv_bias = false;  ///< whether q_proj, k_proj and v_proj have biases, as in Qwen2
  bool o_bias = false;    ///< whether o_proj has; both together are transformers' attention_bias
  bool mlp_bias = false;  ///< whether the feed-forward layers have biases
  double initializer_range = 0.02;  ///< standard deviation of all matrices at first
  TokenIds token_ids = {};          ///< tokens around a text, which are only read and written
  bool checkpoint = false;  ///< true: layers save only their input for backward, and run again then
  /// Where the tensors that layers save for backward are kept until then, see offload(); when
  /// absent, they stay where they are.
  std::optional<OffloadOptions> offload = {};

  /// The configuration in folder/config.json, or in a GGUF file at that path, as
  /// Llama::from_pretrained() reads it. Together with
  /// dist::load_full(folder, ..), which reads the weights, it loads a model that was made on meta
  /// and sharded, which is then never whole on any rank.
  static LlamaConfig from_pretrained(const std::string& folder,
                                     const PretrainedOptions& options = {});
  /// Writes folder/config.json for weights of this dtype, which dist::save_full(folder, ..) writes.
  void save_pretrained(const std::string& folder, DType dtype = kFloat32) const;
};

/// Causal self-attention: each position attends to itself and to those before it. Children: q_proj
/// [H D, C], k_proj and v_proj [H_kv D, C], o_proj [C, H D].
class LlamaAttention : public Module, public Parallelizable {
 public:
  using Options = LlamaConfig;
  /// Makes the layer for this configuration.
  explicit LlamaAttention(const LlamaConfig& config);
  using Module::operator();
  /// Attends with x [B, T, C] at the cache's new positions; this is the cache's layer number
  /// `layer`.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Attends with x [B, T, C]. If the projections give only some heads, as a rank's shards do
  /// (dist::tensor_parallel), it attends with these.
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;
  /// From now on, x has only this rank's positions, which attend to those of all ranks. A cache
  /// throws an Error then.
  using Parallelizable::set_sequence;
  /// The number of heads of queries, of the whole layer.
  int64_t num_heads() const { return heads_; }
  /// The number of heads of keys and values, of the whole layer.
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

/// The gated feed-forward layer down_proj(silu(gate_proj(x)) * up_proj(x)). Shazeer, arXiv
/// 2002.05202.
class LlamaMLP : public Module, public Parallelizable {
 public:
  using Options = LlamaConfig;
  /// Makes the layer for this configuration.
  explicit LlamaMLP(const LlamaConfig& config);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

  Linear &gate_proj, &up_proj, &down_proj;
};

/// One layer of a Llama: x + self_attn(input_layernorm(x)), then x +
/// mlp(post_attention_layernorm(x)).
class LlamaDecoderLayer : public Module, public Parallelizable {
 public:
  using Options = LlamaConfig;
  /// Makes the layer for this configuration.
  explicit LlamaDecoderLayer(const LlamaConfig& config);
  using Module::operator();
  /// Maps x [B, T, C] at the cache's new positions, as LlamaAttention does.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// The norm that the layer begins with.
  RMSNorm& first_norm() { return input_layernorm; }
  /// Maps x and its norm by input_layernorm to the layer's output and its norm by `next`, the next
  /// layer's first norm. So each sum of the residual and the norm after it are one operation,
  /// between layers too.
  SumAndNorm operator()(const SumAndNorm& x, RMSNorm& next);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

  LlamaAttention& self_attn;
  LlamaMLP& mlp;
  RMSNorm &input_layernorm, &post_attention_layernorm;
};

/// A Llama with the names, order and layouts of transformers' LlamaForCausalLM, Qwen2ForCausalLM
/// (with qkv_bias) and MistralForCausalLM without a sliding window: model.embed_tokens,
/// model.layers.0.{self_attn.{q_proj, k_proj, v_proj, o_proj}, mlp.{gate_proj, up_proj, down_proj},
/// input_layernorm, post_attention_layernorm}, model.norm, lm_head. Matrices are initialised by a
/// normal distribution of standard deviation initializer_range, biases by 0. As a chain it has
/// num_hidden_layers + 2 layers: the embedding of tokens [B, T], each layer, and norm with lm_head.
/// \snippet test_examples_models.cpp Llama
class Llama : public Module, public DecoderChain, public Parallelizable {
 public:
  using Options = LlamaConfig;
  /// Makes a model. Throws an Error unless the sizes are positive and the numbers of heads divide
  /// what they have to.
  explicit Llama(const LlamaConfig& config);

  /// Maps tokens [B, T] or [T], int64, with T at most context_length(), to the logits of the
  /// next token at each position, [B, T, V] or [T, V].
  Tensor forward(const Tensor& tokens) override;
  /// The mean cross entropy of the logits with `targets`, which have the shape of tokens; positions
  /// of target -100 are ignored. It is computed by linear_cross_entropy(), so that the logits are
  /// never in memory as a whole, unless lm_head has hooks for values.
  Tensor loss(const Tensor& tokens, const Tensor& targets);

  /// Does what GPT::set_sequence() does, for dist::context_parallel().
  void set_sequence(const std::shared_ptr<const SequencePart>& sequence) override;
  ParallelForm parallel_form() const override;

  /// Reads a model of type llama, qwen2 or mistral from a folder of Hugging Face's transformers:
  /// config.json and model.safetensors, or the files that model.safetensors.index.json names. A
  /// path of a file is that of a GGUF file of architecture llama or qwen2, whose quantised weights
  /// are dequantised to options.dtype one tensor after another. Throws an Error that names what is
  /// missing, superfluous or of the wrong shape, or what in the configuration a Llama does not
  /// support.
  static Llama from_pretrained(const std::string& folder, const PretrainedOptions& options = {});
  /// Writes such a folder, which from_pretrained() and transformers can read: of type qwen2 if
  /// qkv_bias is set and o_bias is not, else of type llama.
  void save_pretrained(const std::string& folder, const SavePretrainedOptions& options = {}) const;

  /// The configuration.
  const LlamaConfig& config() const { return config_; }

  /// max_position_embeddings; with dynamic scaling of rotations, `factor` times as many.
  int64_t context_length() const override;
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache) override;

  /// \name As a chain
  /// \{
  Module& root() override { return *this; }
  size_t layers() const override { return model.layers.size() + 2; }
  Tensor run_layers(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t layer) override;
  double target_count(const Tensor& target) const override;
  Tensor run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) override;
  /// \}

  /// Everything except the last projection; it only gives the parameters their names.
  class Body : public Module {
   public:
    using Options = LlamaConfig;
    /// Makes the parameters for this configuration.
    explicit Body(const LlamaConfig& config);
    std::string type_name() const override { return "LlamaModel"; }
    Embedding& embed_tokens;
    ModuleListOf<LlamaDecoderLayer>& layers;
    RMSNorm& norm;
  };
  Body& model;
  Linear& lm_head;  ///< the projection to logits, [V, C]

 private:
  Tensor checked_tokens(const Tensor& tokens) const;
  Tensor run_range(const Tensor& x, size_t begin, size_t end, bool with_norm);
  Tensor features_from(size_t begin, const Tensor& x);
  Tensor embed(const Tensor& tokens);
  Tensor head_loss(const Tensor& features, const Tensor& targets);
  void init_parameters();

  LlamaConfig config_;
};

}  // namespace hero::nn
