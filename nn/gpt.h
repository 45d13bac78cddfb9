#pragma once
// GPT: a Transformer decoder. Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019. B batch, T time, C embedding, V vocabulary.
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/offload/offload.h>
#include <hero/nn/chain.h>
#include <hero/nn/container.h>
#include <hero/nn/embedding.h>
#include <hero/nn/generate.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/parallel_form.h>
#include <hero/nn/pretrained.h>
#include <hero/nn/rotary.h>

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
};

/// Causal self-attention: each position attends to itself and to those before it. Children: c_attn
/// [C + 2 C_kv, C] (rows of queries, keys, values), c_proj [C, C].
class CausalSelfAttention : public Module, public Parallelizable {
 public:
  using Options = GPTConfig;
  /// Makes the layer for this configuration.
  explicit CausalSelfAttention(const GPTConfig& config);
  using Module::operator();
  /// Attends with x [B, T, C] at the cache's new positions; this is the cache's layer number
  /// `layer`.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Attends with x [B, T, C]. If c_attn gives queries, keys and values of only some heads, as a
  /// rank's shard does (dist::tensor_parallel), it attends with these; dropout in training is then
  /// an Error, since its mask belongs to all heads.
  Tensor forward(const Tensor& x) override;
  /// The number of heads of queries, of the whole layer.
  int64_t n_head() const { return n_head_; }
  /// The number of heads of keys and values, of the whole layer.
  int64_t n_kv_head() const { return n_kv_head_; }
  ParallelForm parallel_form() const override;
  /// From now on x has only this rank's positions, and attends to those of all ranks. Dropout in
  /// training and calls with a cache are then Errors.
  using Parallelizable::set_sequence;

  /// The projections before and after attention.
  Linear &c_attn, &c_proj;

 private:
  /// A layer of a cache that x follows.
  struct Past {
    KeyValueCache& cache;
    size_t layer;
  };
  Tensor run(const Tensor& x, const Past* past);
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) const;

  int64_t n_head_, n_kv_head_;
  double dropout_;
  RotaryEmbedding* rotary_ = nullptr;
};

/// c_proj(gelu(c_fc(x))), four times as wide inside. It is one operation, linear_gelu_linear(),
/// unless c_fc or c_proj has hooks for values, which see what passes. On a GPU, Gelu::tanh has
/// other last bits in the two cases.
class FeedForward : public Module, public Parallelizable {
 public:
  using Options = GPTConfig;
  /// Makes the layer for this configuration.
  explicit FeedForward(const GPTConfig& config);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

  /// The linear layers, [4 C, C] and [C, 4 C].
  Linear &c_fc, &c_proj;

 private:
  Tensor fused(const Tensor& x);

  double dropout_;
  Gelu gelu_;
};

/// One layer of a GPT: x + attn(ln_1(x)), then x + mlp(ln_2(x)).
class Block : public Module, public Parallelizable {
 public:
  using Options = GPTConfig;
  /// Makes the layer for this configuration.
  explicit Block(const GPTConfig& config);
  using Module::operator();
  /// Maps x [B, T, C] at the cache's new positions, as CausalSelfAttention does.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// The norm that the block begins with.
  LayerNorm& first_norm() { return ln_1; }
  /// Maps x and its norm by ln_1 to the block's output and its norm by `next`, the next block's
  /// first norm. So each sum of the residual and the norm after it are one operation, between
  /// blocks too.
  SumAndNorm operator()(const SumAndNorm& x, LayerNorm& next);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

  LayerNorm& ln_1;
  CausalSelfAttention& attn;
  LayerNorm& ln_2;
  FeedForward& mlp;
};

/// A GPT with the names and layouts of nanoGPT, which are those of Hugging Face's GPT-2 except that
/// linear layers are [out, in]: transformer.wte, transformer.wpe, transformer.h.0.{ln_1,
/// attn.{c_attn, c_proj}, ln_2, mlp.{c_fc, c_proj}}, transformer.ln_f, lm_head. Weights are
/// initialised as in GPT-2: normal with standard deviation 0.02, or 0.02 / sqrt(2 n_layer) for each
/// c_proj; biases are 0. As a chain it has n_layer + 2 layers: the embedding of tokens [B, T], each
/// block, and ln_f with lm_head.
/// \snippet test_examples_networks.cpp GPT
class GPT : public Module, public DecoderChain, public Parallelizable {
 public:
  using Options = GPTConfig;
  /// Makes a model. Throws an Error unless n_head divides n_embd, n_kv_head divides n_head and
  /// sizes are positive.
  explicit GPT(const GPTConfig& config);

  /// Maps tokens [B, T] or [T], int64, with T at most block_size, to the logits of the next token
  /// at each position, [B, T, V] or [T, V].
  Tensor forward(const Tensor& tokens) override;
  /// The mean cross entropy of the logits with `targets`, which have the shape of tokens; positions
  /// of target -100 are ignored. It is computed by linear_cross_entropy(), so that the logits are
  /// never in memory as a whole, unless lm_head has hooks for values: then it is cross_entropy() of
  /// the output of lm_head, which the hooks see.
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  /// Switches GPTConfig::checkpoint on or off from now on. Returns true.
  bool set_checkpoint(bool on) override {
    config_.checkpoint = on;
    return true;
  }
  /// From now on the ranks of a group share each sequence: tokens and targets are whole on all of
  /// them, but features, and the logits of forward(), are those of this rank's positions. loss() is
  /// the mean over all positions, with gradients that are to be averaged over the ranks. generate()
  /// and dropout in training are then Errors. Null makes sequences whole again.
  /// dist::context_parallel() calls this function.
  void set_sequence(const std::shared_ptr<const SequencePart>& sequence) override;
  ParallelForm parallel_form() const override;

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

  int64_t context_length() const override { return config_.block_size; }
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache) override;

  /// \name As a chain
  /// \{
  Module& root() override { return *this; }
  size_t layers() const override { return transformer.h.size() + 2; }
  Tensor run_layers(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t layer) override;
  double target_count(const Tensor& target) const override;
  Tensor run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) override;
  /// \}

  /// Everything except the last projection; it only gives the parameters their names.
  class Transformer : public Module {
   public:
    using Options = GPTConfig;
    /// Makes the parameters for this configuration.
    explicit Transformer(const GPTConfig& config);
    Embedding& wte;
    Embedding* const wpe;  ///< the embedding of positions; null with rotary embedding
    ModuleListOf<Block>& h;
    LayerNorm& ln_f;
  };
  Transformer& transformer;
  Linear& lm_head;  ///< the projection to logits, [V, C]

 private:
  Tensor checked_tokens(const Tensor& tokens) const;
  Tensor embed(const Tensor& tokens, const KeyValueCache* cache = nullptr);
  Tensor run_range(const Tensor& x, size_t begin, size_t end, bool with_norm);
  Tensor run_to_head(size_t begin, const Tensor& x);
  Tensor head_loss(const Tensor& features, const Tensor& targets);
  Tensor features(const Tensor& tokens);
  void init_parameters();

  GPTConfig config_;
};

}  // namespace hero::nn
