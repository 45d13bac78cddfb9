#pragma once
// GPT: a decoder-only Transformer. Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019. B batch, T time, C embedding, V vocabulary.
#include <optional>
#include <string>

#include <hero/autograd/offload/offload.h>
#include <hero/nn/causal_lm.h>
#include <hero/nn/pretrained.h>

namespace hero::nn {

/// Sizes and options of a GPT.
struct GPTConfig {
  int64_t vocab_size = 50304;             ///< tokens in the vocabulary, V
  int64_t block_size = 1024;              ///< length of the longest sequence
  int64_t n_layer = 12;                   ///< blocks
  int64_t n_head = 12;                    ///< heads of queries
  int64_t n_embd = 768;                   ///< embedding size, C
  double dropout = 0.0;                   ///< rate of dropout, in training
  bool bias = true;                       ///< whether linear layers and norms have biases
  std::optional<int64_t> n_kv_head = {};  ///< heads of keys and values; n_head when absent
  bool rotary = false;      ///< true: rotary embedding of positions instead of transformer.wpe
  bool checkpoint = false;  ///< true: blocks save only their input for backward, and run again then
  /// Where the tensors that blocks save for backward are kept until then, see offload(); when
  /// absent, they stay where they are.
  std::optional<OffloadOptions> offload = {};
  bool tie_weights = true;  ///< true: lm_head.weight is transformer.wte.weight
  Gelu gelu = Gelu::erf;    ///< form of GELU; OpenAI trained with Gelu::tanh
  double norm_eps = 1e-5;   ///< added to the variance in the norms
  TokenIds token_ids = {};  ///< tokens around a text, which are only read and written

  /// The configuration in folder/config.json, as GPT::from_pretrained() reads it.
  static GPTConfig from_pretrained(const std::string& folder,
                                   const PretrainedOptions& options = {});
  /// Writes folder/config.json for weights of this dtype. Throws as GPT::save_pretrained() does.
  void save_pretrained(const std::string& folder, DType dtype = kFloat32) const;
  /// The same model as a CausalLM.
  operator CausalLMConfig() const;
};

/// A CausalLM with the names and layouts of nanoGPT, which are those of Hugging Face's GPT-2 except
/// that linear layers are [out, in]: transformer.wte, transformer.wpe, transformer.h.0.{ln_1,
/// attn.{c_attn, c_proj}, ln_2, mlp.{c_fc, c_proj}}, transformer.ln_f, lm_head. Weights are
/// initialised as in GPT-2: normal with standard deviation 0.02, or 0.02 / sqrt(2 n_layer) for each
/// c_proj; biases are 0.
/// \snippet test_examples_networks.cpp GPT
class GPT : public CausalLM {
 public:
  using Options = GPTConfig;
  /// Makes a model. Throws an Error unless n_head divides n_embd, n_kv_head divides n_head and
  /// sizes are positive.
  explicit GPT(const GPTConfig& config);

  /// Reads a GPT-2 from a folder of Hugging Face's transformers: config.json and model.safetensors,
  /// or the files that model.safetensors.index.json names. Its linear layers, which are [in, out]
  /// there, are recognised by their names and transposed. Throws an Error that names what is
  /// missing, superfluous or of the wrong shape, or what in the configuration a GPT does not
  /// support.
  /// \snippet test_examples_models.cpp from_pretrained
  static GPT from_pretrained(const std::string& folder, const PretrainedOptions& options = {});
  /// Writes such a folder, which from_pretrained() and transformers can read. Throws an Error,
  /// before anything is written, if GPT-2's configuration cannot express this one: no biases,
  /// rotary embedding, or grouped heads.
  void save_pretrained(const std::string& folder, const SavePretrainedOptions& options = {}) const;

  /// The configuration.
  const GPTConfig& config() const { return config_; }
  bool set_checkpoint(bool on) override {
    config_.checkpoint = on;
    return CausalLM::set_checkpoint(on);
  }

  /// The parts of CausalLM::body under their names in GPT-2.
  struct Transformer {
    Embedding& wte;          ///< the embedding of tokens
    Embedding* const wpe;    ///< the embedding of positions; null with rotary embedding
    ModuleListOf<Block>& h;  ///< the blocks
    LayerNorm& ln_f;         ///< the norm after them
  };
  const Transformer transformer;  ///< the parts of the body

 private:
  GPTConfig config_;
};

}  // namespace hero::nn
