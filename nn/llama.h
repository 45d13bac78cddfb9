#pragma once
// Llama: a Transformer decoder with RMS norms, rotary embedding, gated feed-forward layers, and
// fewer heads of keys and values than of queries. Touvron et al., arXiv
// 2302.13971; Dubey et al., arXiv 2407.21783. B batch, T time, C hidden size, V vocabulary.
#include <optional>
#include <string>

#include <hero/autograd/offload/offload.h>
#include <hero/nn/causal_lm.h>
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
  /// The same model as a CausalLM, whose context is `factor` times as long with dynamic scaling of
  /// rotations.
  operator CausalLMConfig() const;
};

/// A CausalLM with the names, order and layouts of transformers' LlamaForCausalLM, Qwen2ForCausalLM
/// (with qkv_bias) and MistralForCausalLM without a sliding window: model.embed_tokens,
/// model.layers.0.{self_attn.{q_proj, k_proj, v_proj, o_proj}, mlp.{gate_proj, up_proj, down_proj},
/// input_layernorm, post_attention_layernorm}, model.norm, lm_head. Matrices are initialised by a
/// normal distribution of standard deviation initializer_range, biases by 0. Its context_length()
/// is max_position_embeddings; with dynamic scaling of rotations, `factor` times as many.
/// \snippet test_examples_models.cpp Llama
class Llama : public CausalLM {
 public:
  using Options = LlamaConfig;
  /// Makes a model. Throws an Error unless the sizes are positive and num_key_value_heads divides
  /// num_attention_heads and, without head_dim, this divides hidden_size.
  explicit Llama(const LlamaConfig& config);

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
  bool set_checkpoint(bool on) override {
    config_.checkpoint = on;
    return CausalLM::set_checkpoint(on);
  }

  /// The parts of CausalLM::body under their names in transformers.
  struct Body {
    Embedding& embed_tokens;      ///< the embedding of tokens
    ModuleListOf<Block>& layers;  ///< the blocks
    RMSNorm& norm;                ///< the norm after them
  };
  const Body model;  ///< the parts of the body

 private:
  LlamaConfig config_;
};

}  // namespace hero::nn
