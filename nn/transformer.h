#pragma once
// Layers of the Transformer's encoder. Vaswani et al., arXiv 1706.03762. T time, N batch, E model.
#include <hero/nn/attention.h>
#include <hero/nn/container.h>
#include <hero/nn/dropout.h>
#include <hero/nn/norm.h>

namespace hero::nn {

/// The activation between the two linear layers of an encoder layer.
enum class FeedForwardActivation { relu, gelu };

/// Options of TransformerEncoderLayer.
struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;  ///< width between the two linear layers
  double dropout = 0.1;            ///< rate of dropout, in training
  /// What is between the two linear layers.
  FeedForwardActivation activation = FeedForwardActivation::relu;
  double layer_norm_eps = 1e-5;  ///< added to the variance in the norms
  bool batch_first = false;      ///< true: inputs are [N, T, E] instead of [T, N, E]
  /// True: x + f(norm(x)) instead of norm(x + f(x)). Xiong et al., arXiv 2002.04745.
  bool norm_first = false;
  bool bias = true;  ///< whether linear layers and norms have biases
};

/// Masks of an encoder's self-attention.
struct EncoderMasks {
  /// [T, T] or [N H, T, T]: bool, where true means that the position is not attended to, or numbers
  /// that are added to the scores.
  Tensor mask = {};
  /// [N, T]: bool, where true means padding, or numbers that are added to the scores.
  Tensor src_key_padding_mask = {};
  bool is_causal = false;  ///< true: a position sees itself and those before it; needs no mask
};

/// An encoder layer: self-attention, then linear2(activation(linear1(x))), each with dropout, a
/// residual connection and a norm. Children: self_attn, linear1, dropout, linear2, norm1, norm2,
/// dropout1, dropout2.
class TransformerEncoderLayer : public Module, public Parallelizable {
 public:
  using Options = TransformerEncoderLayerOptions;
  /// Makes a layer of width d_model with nhead heads.
  TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerEncoderLayerOptions& options = {});

  using Module::operator();
  /// Maps src [T, N, E] or [T, E] to the same shape.
  Tensor operator()(const Tensor& src, const EncoderMasks& masks);
  Tensor forward(const Tensor& src) override;
  ParallelForm parallel_form() const override;

  MultiheadAttention& self_attn;
  Linear& linear1;
  Dropout& dropout;
  Linear& linear2;
  LayerNorm &norm1, &norm2;
  Dropout &dropout1, &dropout2;

 private:
  Tensor run(const Tensor& src, const EncoderMasks& masks);
  Tensor attend(const Tensor& x, const EncoderMasks& masks);
  Tensor feed_forward(const Tensor& x);

  TransformerEncoderLayerOptions options_;
};

/// Options of TransformerEncoder.
struct TransformerEncoderOptions {
  TransformerEncoderLayerOptions layer = {};  ///< options of every layer
  /// When given, a LayerNorm follows the last layer: the child "norm".
  std::optional<LayerNormOptions> norm = {};
};

/// An encoder of num_layers layers, one after another: the children layers.0, layers.1, ... Each
/// layer begins with weights of its own, while PyTorch copies one layer.
class TransformerEncoder : public Module {
 public:
  using Options = TransformerEncoderOptions;
  /// Makes an encoder of width d_model with nhead heads in each layer.
  TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerEncoderOptions& options = {});

  using Module::operator();
  /// Maps src as TransformerEncoderLayer does; every layer gets the masks.
  Tensor operator()(const Tensor& src, const EncoderMasks& masks);
  Tensor forward(const Tensor& src) override;

  ModuleListOf<TransformerEncoderLayer>& layers;
  LayerNorm* const norm;  ///< null if there is none

 private:
  Tensor run(const Tensor& src, const EncoderMasks& masks);
};

}  // namespace hero::nn
