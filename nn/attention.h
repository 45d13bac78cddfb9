#pragma once
// Multi-head attention. N batch, T queries, S keys, E embedding, H heads.
#include <hero/nn/linear.h>
#include <hero/nn/parallel_form.h>

namespace hero::nn {

/// Options of MultiheadAttention.
struct MultiheadAttentionOptions {
  double dropout = 0.0;              ///< rate of dropout on the attention weights, in training
  bool bias = true;                  ///< whether the four projections have biases
  std::optional<int64_t> kdim = {};  ///< features of each key; embed_dim when absent
  std::optional<int64_t> vdim = {};  ///< features of each value; embed_dim when absent
  bool batch_first = false;          ///< true: inputs and output are [N, T, E] instead of [T, N, E]
  /// Number of heads of keys and values, each shared by num_heads / num_kv_heads heads of queries;
  /// num_heads when absent. Ainslie et al., arXiv 2305.13245.
  std::optional<int64_t> num_kv_heads = {};
  bool add_bias_kv =
      false;  ///< true: a learned key and value, bias_k and bias_v, behind all others
  bool add_zero_attn = false;  ///< true: a key and a value of zeros behind all others
};

/// What a call of MultiheadAttention takes beside query, key and value.
struct MultiheadAttentionInputs {
  /// [N, S] or [S]: bool, where true means that the key is ignored, or numbers that are added to
  /// the scores.
  Tensor key_padding_mask = {};
  bool need_weights = true;  ///< whether the result has the weights; false is faster
  /// [T, S] or [N H, T, S]: bool, where true means that the query does not attend to the key, or
  /// numbers that are added to the scores.
  Tensor attn_mask = {};
  bool average_attn_weights = true;  ///< true: weights are averaged over the heads
  bool is_causal = false;  ///< true: a query sees keys up to its own position; needs no mask
};

/// What a call of MultiheadAttention returns.
struct MultiheadAttentionResult {
  Tensor output;   ///< in the shape of the queries, [T, N, E]
  Tensor weights;  ///< [N, T, S], or [N, H, T, S] if not averaged; undefined if not needed
};

/// concat(heads) W_o with head_i = softmax(q_i k_i^T / sqrt(E / H)) v_i. Vaswani et al., arXiv
/// 1706.03762. Parameters: in_proj_weight [3 E, E] (rows of queries, keys, values), in_proj_bias [3
/// E], out_proj.weight [E, E], out_proj.bias [E]; with kdim or vdim, q_proj_weight, k_proj_weight
/// and v_proj_weight in place of in_proj_weight; with add_bias_kv, bias_k and bias_v [1, 1, E]. No
/// mask hides the keys of add_bias_kv and add_zero_attn, and weights have columns for them. With
/// num_kv_heads, keys and values have E
/// num_kv_heads / H rows each. If the weights have only the rows of some heads, as a rank's shard
/// has them (dist::tensor_parallel), the layer attends with these heads; asking for attention
/// weights or, in training, dropout is then an Error, since both concern all heads.
/// \snippet test_examples_networks.cpp MultiheadAttention
class MultiheadAttention : public Module, public Parallelizable {
 public:
  using Options = MultiheadAttentionOptions;
  /// Makes the layer. Throws an Error unless num_kv_heads divides num_heads and num_heads divides
  /// embed_dim.
  MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  using Module::operator();
  /// Attends with query [T, N, E], key [S, N, kdim] and value [S, N, vdim], or without N for a
  /// single sequence. If a query may attend to no key, its heads and its weights are 0.
  MultiheadAttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const MultiheadAttentionInputs& inputs = {});
  /// Self-attention without masks; returns the output alone.
  Tensor forward(const Tensor& x) override;
  /// The number of heads of queries, of the whole layer.
  int64_t num_heads() const { return sizes_.heads; }
  /// The number of heads of keys and values, of the whole layer.
  int64_t num_kv_heads() const { return sizes_.kv_heads; }
  /// Whether inputs are [N, T, E].
  bool batch_first() const { return options_.batch_first; }
  /// \name As a module that is divided
  /// \{
  ParallelForm parallel_form() const override;
  /// From now on query, key and value have the positions of this rank, equally many on each, and
  /// attend to the positions of all ranks, causally or not. Masks, attention weights and, in
  /// training, dropout are then Errors.
  using Parallelizable::set_sequence;
  /// \}

  /// The parameters, of which those that the options leave out are undefined.
  Tensor &q_proj_weight, &k_proj_weight, &v_proj_weight, &in_proj_weight, &in_proj_bias;
  Tensor &bias_k, &bias_v;
  /// The output projection, [E, E].
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
    Tensor q, k, v, in, bias;  // tensors under the parameters' names
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Projections& by) const;
  Projected project_slices(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void check_shared(const Tensor& query, const Tensor& key,
                    const MultiheadAttentionInputs& inputs) const;
  /// Appends the keys and values of add_bias_kv and add_zero_attn.
  void add_further(Projected& all) const;
  /// Rows of the query projection on this rank: those of all heads, or of some of them.
  int64_t query_rows() const;
  /// Heads of keys and values on this rank, with their copies if it has only a slice of the
  /// weights.
  int64_t kv_heads() const;

  MultiheadAttention(const Sizes& sizes, const MultiheadAttentionOptions& options);
  Tensor& weight(const char* name, bool wanted, int64_t rows, int64_t columns);

  Sizes sizes_;
  MultiheadAttentionOptions options_;
};

}  // namespace hero::nn
