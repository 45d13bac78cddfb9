#pragma once
// GPT: a Transformer that reads from left to right. Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019. B batch, T time, C embedding, V vocabulary.
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/offload.h>
#include <hero/nn/chain.h>
#include <hero/nn/container.h>
#include <hero/nn/embedding.h>
#include <hero/nn/generate.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/pretrained.h>
#include <hero/nn/rotary.h>
#include <hero/nn/sequence.h>

namespace hero::nn {

struct GPTConfig {
  int64_t vocab_size = 50304;
  int64_t block_size = 1024;  ///< longest sequence
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  double dropout = 0.0;
  bool bias = true;                       ///< of the linear layers and norms
  std::optional<int64_t> n_kv_head = {};  ///< heads of keys and values; n_head when absent
  bool rotary = false;      ///< positions by rotating queries and keys instead of transformer.wpe
  bool checkpoint = false;  ///< blocks keep only their input for backward and run twice
  /// What blocks keep for backward lies elsewhere until then, see offload(); absent: it stays.
  std::optional<OffloadOptions> offload = {};
  bool tie_weights = true;  ///< lm_head.weight is transformer.wte.weight
  Gelu gelu = Gelu::erf;    ///< OpenAI's weights were trained with Gelu::tanh
  double norm_eps = 1e-5;   ///< of the norms
};

/// Attention of each position to itself and those before it. Children: c_attn [C + 2 C_kv, C] (rows
/// of queries, keys, values), c_proj [C, C].
class CausalSelfAttention : public Module {
 public:
  using Options = GPTConfig;
  explicit CausalSelfAttention(const GPTConfig& config);
  using Module::operator();
  /// x [B, T, C] at the new positions of the cache, whose layer this is.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  /// Where c_attn gives the queries, keys and values of some heads alone, as a rank's part of it
  /// does (dist::tensor_parallel), it attends with these. Dropout is an Error then, in training:
  /// its mask belongs to all heads.
  Tensor forward(const Tensor& x) override;
  int64_t n_head() const { return n_head_; }
  int64_t n_kv_head() const { return n_kv_head_; }
  /// From now on x has this rank's positions alone, and attends to those of all ranks; null: x is
  /// whole again. Dropout in training and a past are Errors then.
  void set_sequence(std::shared_ptr<const SequencePart> sequence);

  Linear &c_attn, &c_proj;

 private:
  /// A layer of a cache that x follows.
  struct Past {
    KeyValueCache& cache;
    size_t layer;
  };
  Tensor run(const Tensor& x, const Past* past);
  Tensor turned(const Tensor& x);
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) const;

  int64_t n_head_, n_kv_head_;
  double dropout_;
  RotaryEmbedding* rotary_ = nullptr;
  std::shared_ptr<const SequencePart> sequence_;
};

/// c_proj(gelu(c_fc(x))), four times as wide inside: one operation, by linear_gelu_linear, unless
/// c_fc or c_proj has hooks for values, which see what passes. On a GPU gelu by tanh has other last
/// bits then.
class FeedForward : public Module {
 public:
  using Options = GPTConfig;
  explicit FeedForward(const GPTConfig& config);
  Tensor forward(const Tensor& x) override;

  Linear &c_fc, &c_proj;

 private:
  Tensor fused(const Tensor& x);

  double dropout_;
  Gelu gelu_;
};

/// One layer: x + attn(ln_1(x)), then x + mlp(ln_2(x)).
class Block : public Module {
 public:
  using Options = GPTConfig;
  explicit Block(const GPTConfig& config);
  using Module::operator();
  /// As CausalSelfAttention's.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, size_t layer);
  LayerNorm& first_norm() { return ln_1; }
  /// From x and its norm by ln_1 to the block's result and its norm by `next`: the residual's sums
  /// and norms are one operation each, between blocks too.
  SumAndNorm operator()(const SumAndNorm& x, LayerNorm& next);
  Tensor forward(const Tensor& x) override;

  LayerNorm& ln_1;
  CausalSelfAttention& attn;
  LayerNorm& ln_2;
  FeedForward& mlp;
};

/// Names and layouts of nanoGPT, which are Hugging Face's GPT-2 but for linear layers, kept [out,
/// in] here: transformer.wte, transformer.wpe, transformer.h.0.{ln_1, attn.{c_attn, c_proj},
/// ln_2, mlp.{c_fc, c_proj}}, transformer.ln_f, lm_head. First values as GPT-2's: normal with
/// deviation 0.02, 0.02 / sqrt(2 n_layer) for each c_proj, biases 0. As a chain it has n_layer + 2
/// links: the embedding of tokens [B, T], each block, and ln_f with lm_head.
/// \snippet test_examples_networks.cpp GPT
class GPT : public Module, public DecoderChain {
 public:
  using Options = GPTConfig;
  /// An Error unless n_head divides n_embd, n_kv_head divides n_head and sizes are positive.
  explicit GPT(const GPTConfig& config);

  /// tokens [B, T] or [T], int64, T at most block_size: scores of the next token at each position,
  /// [B, T, V] or [T, V].
  Tensor forward(const Tensor& tokens) override;
  /// The mean cross entropy of the scores with targets of tokens' shape, of which -100 is ignored,
  /// by linear_cross_entropy: the scores never exist as a whole. Only where lm_head has hooks
  /// for values they do, for the hooks to see: then it is cross_entropy of what lm_head gives.
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  /// From now on blocks keep only their input for backward and run twice, or do not: as
  /// GPTConfig::checkpoint says at first.
  void set_checkpoint(bool on) { config_.checkpoint = on; }
  /// From now on the ranks of a group share each sequence: tokens and targets are whole on all of
  /// them, features are those of this rank's positions, and so are the scores of forward(). loss()
  /// is the mean over all positions, with gradients that are to be averaged over the ranks. Null:
  /// sequences are whole again. dist::context_parallel() calls it. generate() and dropout in
  /// training are Errors then.
  void set_sequence(const std::shared_ptr<const SequencePart>& sequence);

  /// From now on something around the blocks gives them one of `parts` equal parts of the positions
  /// each and joins these behind the last block (dist::tensor_parallel with .sequence): what
  /// run_links() gives after a block then has so many fewer, also where it is asked for shapes
  /// alone.
  void set_block_parts(int64_t parts) { block_parts_ = parts; }

  /// The GPT-2 in a folder of Hugging Face's transformers: config.json and model.safetensors, or
  /// the files that model.safetensors.index.json names. Its linear layers, kept [in, out] there,
  /// are transposed by their names, also where they are square. An Error that names what is
  /// missing, superfluous or mis-shaped, and what of the configuration a GPT does not have.
  /// \snippet test_examples_models.cpp from_pretrained
  static GPT from_pretrained(const std::string& folder, const PretrainedOptions& options = {});
  /// Writes such a folder, which from_pretrained() and transformers read. An Error, before anything
  /// is written, where GPT-2 has no word for a choice: no biases, rotary, grouped heads.
  void save_pretrained(const std::string& folder, const SavePretrainedOptions& options = {}) const;

  const GPTConfig& config() const { return config_; }

  int64_t context_length() const override { return config_.block_size; }
  Tensor next_scores(const Tensor& tokens, KeyValueCache& cache) override;

  /// \name As a chain
  /// \{
  Module& root() override { return *this; }
  size_t links() const override { return transformer.h.size() + 2; }
  Tensor run_links(size_t begin, size_t end, const Tensor& x) override;
  Tensor loss_from(size_t begin, const Tensor& x, const Tensor& target) override;
  std::vector<Module*> modules_of(size_t link) override;
  Tensor run_links_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) override;
  /// \}

  /// All but the last projection; names only.
  class Transformer : public Module {
   public:
    using Options = GPTConfig;
    explicit Transformer(const GPTConfig& config);
    Embedding& wte;
    Embedding* const wpe;  ///< null with rotary embedding
    ModuleListOf<Block>& h;
    LayerNorm& ln_f;
  };
  Transformer& transformer;
  Linear& lm_head;

 private:
  Tensor checked_tokens(const Tensor& tokens) const;
  Tensor embed(const Tensor& tokens, const KeyValueCache* cache = nullptr);
  Tensor run_range(const Tensor& x, size_t begin, size_t end, bool with_norm);
  Tensor run_to_head(size_t begin, const Tensor& x);
  Tensor head_loss(const Tensor& features, const Tensor& targets);
  Tensor shared_head_loss(const Tensor& features, const Tensor& targets);
  Tensor features(const Tensor& tokens);
  void init_parameters();

  GPTConfig config_;
  int64_t block_parts_ = 1;
  std::shared_ptr<const SequencePart> sequence_;
};

}  // namespace hero::nn
