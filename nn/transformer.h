#pragma once
// Layers of the Transformer's encoder. Vaswani et al., arXiv 1706.03762. T time, N batch, E model.
#include <hero/nn/attention.h>
#include <hero/nn/container.h>
#include <hero/nn/norm.h>

namespace hero::nn {

enum class FeedForwardActivation { relu, gelu };

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  FeedForwardActivation activation = FeedForwardActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  ///< [N, T, E] instead of [T, N, E]
  bool norm_first = false;   ///< x + f(norm(x)) instead of norm(x + f(x)); arXiv 2002.04745
  bool bias = true;          ///< of the linear layers and norms
};

struct EncoderMasks {
  Tensor mask = {};  ///< [T, T] or [N H, T, T]: bool, true = not attended; or added to the scores
  Tensor src_key_padding_mask = {};  ///< [N, T]: bool, true = padding; or added to the scores
  bool is_causal = false;
};

/// Self-attention, then linear2(activation(linear1(x))), each with dropout, residual and norm.
/// Children: self_attn, linear1, linear2, norm1, norm2.
class TransformerEncoderLayer : public Module {
 public:
  using Options = TransformerEncoderLayerOptions;
  TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerEncoderLayerOptions& options = {});

  using Module::operator();
  /// src [T, N, E] or [T, E]; the same shape.
  Tensor operator()(const Tensor& src, const EncoderMasks& masks);
  Tensor forward(const Tensor& src) override;

  MultiheadAttention& self_attn;
  Linear &linear1, &linear2;
  LayerNorm &norm1, &norm2;

 private:
  Tensor run(const Tensor& src, const EncoderMasks& masks);
  Tensor attend(const Tensor& x, const EncoderMasks& masks);
  Tensor feed_forward(const Tensor& x);

  TransformerEncoderLayerOptions options_;
};

struct TransformerEncoderOptions {
  TransformerEncoderLayerOptions layer = {};
  std::optional<LayerNormOptions> norm = {};  ///< a last LayerNorm, the child "norm"
};

/// num_layers layers, one after another: children layers.0, layers.1, ... Unlike PyTorch's, which
/// copies one layer, each begins with weights of its own.
class TransformerEncoder : public Module {
 public:
  using Options = TransformerEncoderOptions;
  TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerEncoderOptions& options = {});

  using Module::operator();
  /// As TransformerEncoderLayer; every layer gets the masks.
  Tensor operator()(const Tensor& src, const EncoderMasks& masks);
  Tensor forward(const Tensor& src) override;

  ModuleListOf<TransformerEncoderLayer>& layers;
  LayerNorm* const norm;  ///< null unless wanted

 private:
  Tensor run(const Tensor& src, const EncoderMasks& masks);
};

}  // namespace hero::nn
