#pragma once
// Attention with several heads. N batch, T queries, S keys, E embedding, H heads.
#include <hero/autograd/nn_ops.h>
#include <hero/nn/linear.h>
#include <hero/nn/sequence.h>

namespace hero::nn {

struct MultiheadAttentionOptions {
  double dropout = 0.0;              ///< of the attention weights, in training
  bool bias = true;                  ///< of the four projections
  std::optional<int64_t> kdim = {};  ///< features of a key; embed_dim when absent
  std::optional<int64_t> vdim = {};  ///< features of a value; embed_dim when absent
  bool batch_first = false;          ///< inputs and output are [N, T, E] instead of [T, N, E]
  /// Heads of keys and values, each shared by num_heads / num_kv_heads heads of queries; num_heads
  /// when absent. Ainslie et al., arXiv 2305.13245.
  std::optional<int64_t> num_kv_heads = {};
};

struct MultiheadAttentionInputs {
  /// [N, S] or [S]: bool, true = the key is ignored; or numbers added to the scores.
  Tensor key_padding_mask = {};
  bool need_weights = true;  ///< false is faster
  /// [T, S] or [N H, T, S]: bool, true = not attended; or numbers added to the scores.
  Tensor attn_mask = {};
  bool average_attn_weights = true;
  bool is_causal = false;  ///< a query sees keys up to its own position; no mask is needed
};

struct MultiheadAttentionResult {
  Tensor output;   ///< as the queries, [T, N, E]
  Tensor weights;  ///< [N, T, S], or [N, H, T, S] when not averaged; undefined unless needed
};

/// Concat(heads) W_o with head_i = softmax(q_i k_i^T / sqrt(E / H)) v_i. Vaswani et al., arXiv
/// 1706.03762. Parameters: in_proj_weight [3 E, E] (rows of queries, keys, values), in_proj_bias [3
/// E], out_proj.weight [E, E], out_proj.bias [E]; with kdim or vdim, q_proj_weight, k_proj_weight
/// and v_proj_weight in place of in_proj_weight. With num_kv_heads, keys and values have E
/// num_kv_heads / H rows each. Where the weights hold the rows of some heads alone, as a rank's
/// part of them does (dist::tensor_parallel), it attends with these; weights and, in training,
/// dropout are of all heads, and an Error then.
/// \snippet test_examples_networks.cpp MultiheadAttention
class MultiheadAttention : public Module {
 public:
  using Options = MultiheadAttentionOptions;
  /// An Error unless num_kv_heads divides num_heads and num_heads divides embed_dim.
  MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  using Module::operator();
  /// query [T, N, E], key [S, N, kdim], value [S, N, vdim]; without N for a single sequence. The
  /// heads of a query that may attend to nothing are 0, and so are its weights.
  MultiheadAttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const MultiheadAttentionInputs& inputs = {});
  /// Self-attention without masks: the output alone.
  Tensor forward(const Tensor& x) override;
  int64_t num_heads() const { return sizes_.heads; }
  int64_t num_kv_heads() const { return sizes_.kv_heads; }
  bool batch_first() const { return options_.batch_first; }
  /// From now on query, key and value have the same number of positions each, those of this rank,
  /// and attend to those of all ranks, causally or not. Masks, weights and, in training, dropout
  /// are Errors then. Null: sequences are whole again. dist::context_parallel() calls it.
  void set_sequence(std::shared_ptr<const SequencePart> sequence);

  /// Those that the options leave out are undefined.
  Tensor &q_proj_weight, &k_proj_weight, &v_proj_weight, &in_proj_weight, &in_proj_bias;
  Linear& out_proj;

 private:
  /// Sizes that parameters are made by.
  struct Sizes {
    Sizes(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options);
    int64_t embed_dim, heads, kv_heads, kv_dim, kdim, vdim;
    bool packed;  // one weight for queries, keys and values
  };
  struct Projected {
    Tensor q, k, v;  // [N, H, T, D], [N, H_kv, S, D]
  };
  MultiheadAttentionResult attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const MultiheadAttentionInputs& inputs);
  struct Projections {
    Tensor q, k, v, in, bias;  // of the parameters' names
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Projections& by) const;
  Projected project_slices(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void check_shared(const Tensor& query, const Tensor& key,
                    const MultiheadAttentionInputs& inputs) const;
  /// Rows of queries that are here: those of all heads, or of a part of them.
  int64_t query_rows() const;

  MultiheadAttention(const Sizes& sizes, const MultiheadAttentionOptions& options);
  Tensor& weight(const char* name, bool wanted, int64_t rows, int64_t columns);

  Sizes sizes_;
  MultiheadAttentionOptions options_;
  std::shared_ptr<const SequencePart> sequence_;
};

}  // namespace hero::nn
