#pragma once
// CausalLM: a decoder-only Transformer that predicts the next token. Learned or rotary positions,
// layer norms or RMS norms, a feed-forward layer with or without gate, groups of heads and biases
// are its configuration; GPT and Llama are two of these. B batch, T time, C width, V vocabulary, H
// heads of queries, H_kv heads of keys and values, D size of a head.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hero/autograd/offload/offload.h>
#include <hero/nn/container.h>
#include <hero/nn/embedding.h>
#include <hero/nn/generate.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/parallel_form.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

/// What a CausalLM calls its modules, in states, printed trees and errors. The defaults are the
/// names of GPT-2.
struct CausalLMNames {
  std::string model = "CausalLM";                      ///< the model, in errors
  std::string context_length = "the context length";   ///< the option, in errors
  std::string body = "transformer";                    ///< all modules but the head, lm_head
  std::string body_type = "Transformer";               ///< the class of the body
  std::string tokens = "wte";                          ///< the embedding of tokens
  std::string positions = "wpe";                       ///< the embedding of positions
  std::string blocks = "h";                            ///< the list of blocks
  std::string last_norm = "ln_f";                      ///< the norm after the blocks
  std::string block_type = "Block";                    ///< the class of a block
  std::string norm_1 = "ln_1";                         ///< a block's norm before attention
  std::string norm_2 = "ln_2";                         ///< a block's norm before `mlp`
  std::string attention = "attn";                      ///< a block's attention
  std::string attention_type = "CausalSelfAttention";  ///< the class of the attention
  std::string mlp = "mlp";                             ///< a block's feed-forward layer
  std::string mlp_type = "FeedForward";                ///< the class of the feed-forward layer
  /// True: in lists of its modules a block's norms come after attention and feed-forward layer.
  bool norms_last = false;
  /// The projections before attention and what their outputs are: one that packs queries, keys and
  /// values, or several.
  std::vector<HeadWeight> projections = {{"c_attn", {Heads::queries, Heads::keys, Heads::values}}};
  std::string attention_out = "c_proj";  ///< the projection after attention
  std::string rotary = "rotary";         ///< the rotary embedding of attention
  std::string gate = "c_gate";           ///< the gate's layer, in a gated feed-forward layer
  std::string up = "c_fc";               ///< the layer from the width to the inner width
  std::string down = "c_proj";           ///< the layer back to the width
};

/// Sizes and options of a CausalLM. A GPTConfig and a LlamaConfig convert to it.
struct CausalLMConfig {
  int64_t vocab_size = 50304;                ///< tokens in the vocabulary, V
  int64_t context_length = 1024;             ///< length of the longest sequence
  int64_t layers = 12;                       ///< blocks
  int64_t heads = 12;                        ///< heads of queries, H
  int64_t width = 768;                       ///< features of a token, C
  std::optional<int64_t> kv_heads = {};      ///< heads of keys and values, H_kv; H when absent
  std::optional<int64_t> head_dim = {};      ///< size of a head, D; C / H when absent
  std::optional<int64_t> inner_width = {};   ///< hidden units of feed-forward layers; 4 C if absent
  bool gated = false;                        ///< true: down(silu(gate(x)) * up(x)), with no GELU
  Gelu gelu = Gelu::erf;                     ///< form of GELU in down(gelu(up(x)))
  std::optional<RotaryOptions> rotary = {};  ///< rotary positions; absent: an embedding of them
  bool rms_norm = false;                     ///< true: RMSNorm in place of LayerNorm
  double norm_eps = 1e-5;                    ///< added to the variance, or the mean square
  bool norm_bias = true;                     ///< whether a LayerNorm has a bias
  bool qkv_bias = true;        ///< whether the projections before attention have biases
  bool attention_bias = true;  ///< whether the projection after attention has a bias
  bool mlp_bias = true;        ///< whether feed-forward layers have biases
  double dropout = 0.0;        ///< rate of dropout, in training
  bool tie_weights = true;     ///< true: lm_head's weight is that of the embedding of tokens
  double init_std = 0.02;      ///< standard deviation of matrices at first
  /// Standard deviation of the last matrix of attention and of feed-forward layers; init_std when
  /// absent.
  std::optional<double> residual_init_std = {};
  bool checkpoint = false;  ///< true: blocks save only their input for backward, and run again then
  /// Where the tensors that blocks save for backward are kept until then, see offload(); when
  /// absent, they stay where they are.
  std::optional<OffloadOptions> offload = {};
  CausalLMNames names = {};  ///< the names of the modules
};

/// The common base of a CausalLM's modules, which print as classes with the names from
/// CausalLMNames.
class CausalLMPart : public Module {
 public:
  std::string type_name() const override { return type_; }

 protected:
  /// Makes a module that prints as a class of this name.
  explicit CausalLMPart(std::string type) : type_(std::move(type)) {}
  /// Adds the norm that the configuration selects.
  ResidualNorm& add_norm(const std::string& name, const CausalLMConfig& config);

 private:
  std::string type_;
};

/// Causal self-attention: each position attends to itself and to those before it. Children: the
/// projections to queries [H D, C], keys and values [H_kv D, C], packed in one weight or separate,
/// and `out` [C, H D].
class CausalSelfAttention : public CausalLMPart, public Parallelizable {
 public:
  using Options = CausalLMConfig;
  /// Makes the layer for this configuration.
  explicit CausalSelfAttention(const CausalLMConfig& config);
  using Module::operator();
  /// Attends with x [B, T, C] at the cache's new positions; this is the cache's layer number
  /// `layer`.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Attends with x [B, T, C]. If the projections give queries, keys and values of only some heads,
  /// as a rank's shards do (dist::tensor_parallel), it attends with these; dropout in training is
  /// then an Error, since its mask belongs to all heads.
  Tensor forward(const Tensor& x) override;
  /// The number of heads of queries, of the whole layer.
  int64_t heads() const { return heads_; }
  /// The number of heads of keys and values, of the whole layer.
  int64_t kv_heads() const { return kv_heads_; }
  ParallelForm parallel_form() const override;
  /// From now on x has only this rank's positions, and attends to those of all ranks. Dropout in
  /// training and calls with a cache are then Errors.
  using Parallelizable::set_sequence;

  /// The projections before attention, in the order of CausalLMNames::projections.
  const std::vector<Linear*> projections;
  Linear& out;  ///< the projection after attention

 private:
  /// A layer of a cache that x follows.
  struct Past {
    KeyValueCache& cache;
    size_t layer;
  };
  std::vector<Linear*> added_projections(const CausalLMConfig& config);
  Tensor run(const Tensor& x, const Past* past);

  std::vector<HeadWeight> weights_;  // forms of the projections, then of `out`
  int64_t heads_, kv_heads_, dim_;
  double dropout_;
  RotaryEmbedding* rotary_;
};

/// The feed-forward layer down(gelu(up(x))), or with a gate down(silu(gate(x)) * up(x)) (Shazeer,
/// arXiv 2002.05202). Without gate it is one operation, linear_gelu_linear(), unless `up` or `down`
/// has hooks for values, which see what passes. On a GPU, Gelu::tanh has other last bits in the two
/// cases.
class FeedForward : public CausalLMPart, public Parallelizable {
 public:
  using Options = CausalLMConfig;
  /// Makes the layer for this configuration.
  explicit FeedForward(const CausalLMConfig& config);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

  Linear* const gate;  ///< from the width to the inner width; null if there is no gate
  Linear& up;          ///< from the width to the inner width
  Linear& down;        ///< back to the width

 private:
  Tensor fused(const Tensor& x);

  double dropout_;
  Gelu gelu_;
};

/// One layer of a CausalLM: x + attn(norm_1(x)), then x + mlp(norm_2(x)).
class Block : public CausalLMPart, public Parallelizable {
 public:
  using Options = CausalLMConfig;
  /// Makes the layer for this configuration.
  explicit Block(const CausalLMConfig& config);
  using Module::operator();
  /// Maps x [B, T, C] at the cache's new positions, as CausalSelfAttention does.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Maps x and its norm by norm_1 to the block's output and its norm by `next`, the next block's
  /// norm_1. So each sum of the residual and the norm after it are one operation, between blocks
  /// too.
  SumAndNorm operator()(const SumAndNorm& x, ResidualNorm& next);
  Tensor forward(const Tensor& x) override;
  ParallelForm parallel_form() const override;

 private:
  struct Parts {
    ResidualNorm *norm_1 = nullptr, *norm_2 = nullptr;
    CausalSelfAttention* attn = nullptr;
    FeedForward* mlp = nullptr;
  };
  Parts added_parts(const CausalLMConfig& config);

  Parts parts_;
  std::vector<std::string> by_position_;

 public:
  ResidualNorm& norm_1;       ///< the norm before attention
  CausalSelfAttention& attn;  ///< the attention
  ResidualNorm& norm_2;       ///< the norm before the feed-forward layer
  FeedForward& mlp;           ///< the feed-forward layer
};

/// A decoder-only Transformer: embeddings of tokens and positions, blocks, a norm, and lm_head.
/// Matrices are initialised by a normal distribution of standard deviation init_std, biases by 0.
/// As a PipelineModel it has layers + 2 layers: the embedding of tokens [B, T], each block, and the
/// last norm with lm_head. \snippet test_examples_models.cpp CausalLM
class CausalLM : public Module, public PipelineDecoder, public Parallelizable {
 public:
  using Options = CausalLMConfig;
  /// Makes a model. Throws an Error unless the sizes are positive and kv_heads divides heads and,
  /// without head_dim, heads divides width.
  explicit CausalLM(const CausalLMConfig& config);

  /// Maps tokens [B, T] or [T], int64, with T at most context_length(), to the logits of the next
  /// token at each position, [B, T, V] or [T, V].
  Tensor forward(const Tensor& tokens) override;
  /// The mean cross entropy of the logits with `targets`, which have the shape of tokens; positions
  /// of target -100 are ignored. It is computed by linear_cross_entropy(), so that the logits are
  /// never in memory as a whole, unless lm_head has hooks for values: then it is cross_entropy() of
  /// the output of lm_head, which the hooks see.
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  /// Switches CausalLMConfig::checkpoint on or off from now on. Returns true.
  bool set_checkpoint(bool on) override {
    config_.checkpoint = on;
    return true;
  }
  /// From now on the ranks of a group share each sequence: tokens and targets are whole on all of
  /// them, but features, and the logits of forward(), are those of this rank's positions. loss() is
  /// the mean over all positions, with gradients that are to be averaged over the ranks. generate()
  /// and dropout in training are then Errors, and so is dynamic scaling of rotations. Null makes
  /// sequences whole again. dist::context_parallel() calls this function.
  void set_sequence(const std::shared_ptr<const SequencePart>& sequence) override;
  ParallelForm parallel_form() const override;

  int64_t context_length() const override { return config_.context_length; }
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache) override;

  /// \name As a PipelineModel
  /// \{
  Module& root() override { return *this; }
  size_t layers() const override { return body.blocks.size() + 2; }
  Tensor run_layers(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t layer) override;
  double target_count(const Tensor& target) const override;
  Tensor run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) override;
  /// \}

  /// Everything except the last projection; it only gives the parameters their names.
  class Body : public CausalLMPart {
   public:
    using Options = CausalLMConfig;
    /// Makes the parameters for this configuration.
    explicit Body(const CausalLMConfig& config);
    Embedding& tokens;            ///< the embedding of tokens, [V, C]
    Embedding* const positions;   ///< the embedding of positions; null with rotary positions
    ModuleListOf<Block>& blocks;  ///< the blocks
    ResidualNorm& norm;           ///< the norm after the last block
  };
  Body& body;
  Linear& lm_head;  ///< the projection to logits, [V, C]

 private:
  Tensor checked_tokens(const Tensor& tokens) const;
  void check_range(size_t begin, size_t end) const;
  Tensor embed(const Tensor& tokens, const KeyValueCache* cache = nullptr);
  enum class LastNorm : uint8_t { no, yes };
  Tensor run_blocks(const Tensor& x, size_t begin, size_t end, LastNorm norm);
  Tensor features_from(size_t begin, const Tensor& x);
  Tensor head_loss(const Tensor& features, const Tensor& targets);
  Tensor shared_head_loss(const Tensor& features, const Tensor& targets);
  void init_parameters();

  CausalLMConfig config_;
};

}  // namespace hero::nn
