#pragma once
// Layers of the Transformer's decoder, and the whole Transformer. Vaswani et al., arXiv 1706.03762.
// T positions of the targets, S of the sources, N batch, E model.
#include <hero/nn/transformer.h>

namespace hero::nn {

/// Options of TransformerDecoderLayer, which are those of an encoder's layer.
using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

/// Masks of a decoder; all of them as in EncoderMasks.
struct DecoderMasks {
  Tensor tgt_mask = {};                 ///< [T, T] or [N H, T, T], for self-attention
  Tensor memory_mask = {};              ///< [T, S] or [N H, T, S], for attention to the memory
  Tensor tgt_key_padding_mask = {};     ///< [N, T]
  Tensor memory_key_padding_mask = {};  ///< [N, S]
  bool tgt_is_causal = false;  ///< true: a position sees itself and those before it; needs no mask
};

/// A decoder layer: self-attention, attention to the encoder's output, then
/// linear2(activation(linear1(x))), each with dropout, a residual connection and a norm. Children:
/// self_attn, multihead_attn, linear1, dropout, linear2, norm1, norm2, norm3, dropout1, dropout2,
/// dropout3.
class TransformerDecoderLayer : public Module {
 public:
  using Options = TransformerDecoderLayerOptions;
  /// Makes a layer of width d_model with nhead heads.
  TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                          const TransformerDecoderLayerOptions& options = {});

  /// Maps tgt [T, N, E] or [T, E], with the encoder's output memory [S, N, E] or [S, E], to tgt's
  /// shape.
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

  MultiheadAttention &self_attn, &multihead_attn;
  Linear& linear1;
  Dropout& dropout;
  Linear& linear2;
  LayerNorm &norm1, &norm2, &norm3;
  Dropout &dropout1, &dropout2, &dropout3;

 private:
  Tensor run(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks);
  Tensor attend(const Tensor& x, const DecoderMasks& masks);
  Tensor attend(const Tensor& x, const Tensor& memory, const DecoderMasks& masks);
  Tensor feed_forward(const Tensor& x);

  TransformerDecoderLayerOptions options_;
};

/// Options of TransformerDecoder, which are those of an encoder.
using TransformerDecoderOptions = TransformerEncoderOptions;

/// A decoder of num_layers layers, one after another: the children layers.0, layers.1, ... Each
/// layer begins with weights of its own, while PyTorch copies one layer.
class TransformerDecoder : public Module {
 public:
  using Options = TransformerDecoderOptions;
  /// Makes a decoder of width d_model with nhead heads in each layer.
  TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                     const TransformerDecoderOptions& options = {});

  /// Maps tgt as TransformerDecoderLayer does; every layer gets memory and masks.
  /// \snippet test_examples_networks.cpp TransformerDecoder
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

  ModuleListOf<TransformerDecoderLayer>& layers;
  LayerNorm* const norm;  ///< null if there is none
};

/// Options of Transformer.
struct TransformerOptions {
  int64_t num_encoder_layers = 6;  ///< layers of the encoder
  int64_t num_decoder_layers = 6;  ///< layers of the decoder
  /// Options of every layer; the two norms at the ends have their eps and bias.
  TransformerEncoderLayerOptions layer = {};
};

/// Masks of a Transformer; all of them as in EncoderMasks and DecoderMasks.
struct TransformerMasks {
  Tensor src_mask = {};                 ///< [S, S] or [N H, S, S], for the encoder
  Tensor tgt_mask = {};                 ///< [T, T] or [N H, T, T], for the decoder's self-attention
  Tensor memory_mask = {};              ///< [T, S] or [N H, T, S], for attention to the memory
  Tensor src_key_padding_mask = {};     ///< [N, S]
  Tensor tgt_key_padding_mask = {};     ///< [N, T]
  Tensor memory_key_padding_mask = {};  ///< [N, S], as a rule that of src
  bool src_is_causal = false;           ///< true: the encoder is causal; needs no mask
  bool tgt_is_causal = false;           ///< true: the decoder is causal; needs no mask
};

/// An encoder and a decoder, each with a norm at its end: the children encoder and decoder. As in
/// PyTorch, all matrices begin with init::xavier_uniform().
class Transformer : public Module {
 public:
  using Options = TransformerOptions;
  /// Makes a Transformer of width d_model with nhead heads.
  explicit Transformer(int64_t d_model = 512, int64_t nhead = 8,
                       const TransformerOptions& options = {});

  /// Encodes src [S, N, E], and decodes tgt [T, N, E] with what came out.
  Tensor operator()(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {});
  /// [size, size]: 0 at and below the diagonal, -inf above it. `.tgt_is_causal = true` is faster.
  static Tensor generate_square_subsequent_mask(int64_t size);

  TransformerEncoder& encoder;
  TransformerDecoder& decoder;
};

}  // namespace hero::nn
