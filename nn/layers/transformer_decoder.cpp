#include <limits>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/memory/allocator.h>
#include <hero/nn/layers/feed_forward.h>
#include <hero/nn/transformer_decoder.h>

namespace hero::nn {

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerDecoderLayerOptions& options)
    : self_attn(add<MultiheadAttention>("self_attn", d_model, nhead, attention_options(options))),
      multihead_attn(
          add<MultiheadAttention>("multihead_attn", d_model, nhead, attention_options(options))),
      linear1(add<Linear>("linear1", d_model, options.dim_feedforward,
                          LinearOptions{.bias = options.bias})),
      dropout(add<Dropout>("dropout", options.dropout)),
      linear2(add<Linear>("linear2", options.dim_feedforward, d_model,
                          LinearOptions{.bias = options.bias})),
      norm1(add<LayerNorm>("norm1", Shape{d_model}, norm_options(options))),
      norm2(add<LayerNorm>("norm2", Shape{d_model}, norm_options(options))),
      norm3(add<LayerNorm>("norm3", Shape{d_model}, norm_options(options))),
      dropout1(add<Dropout>("dropout1", options.dropout)),
      dropout2(add<Dropout>("dropout2", options.dropout)),
      dropout3(add<Dropout>("dropout3", options.dropout)),
      options_(options) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const DecoderMasks& masks) {
  return run_hooked({tgt, memory},
                    [&](const Tensors& in) -> Tensors { return {run(in[0], in[1], masks)}; })[0];
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const DecoderMasks& masks) {
  const MultiheadAttentionInputs inputs{.key_padding_mask = masks.tgt_key_padding_mask,
                                        .need_weights = false,
                                        .attn_mask = masks.tgt_mask,
                                        .is_causal = masks.tgt_is_causal};
  return dropout1(self_attn(x, x, x, inputs).output);
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const Tensor& memory,
                                       const DecoderMasks& masks) {
  const MultiheadAttentionInputs inputs{.key_padding_mask = masks.memory_key_padding_mask,
                                        .need_weights = false,
                                        .attn_mask = masks.memory_mask};
  return dropout2(multihead_attn(x, memory, memory, inputs).output);
}

Tensor TransformerDecoderLayer::feed_forward(const Tensor& x) {
  return dropout3(
      nn::feed_forward("TransformerDecoderLayer", linear1, dropout, linear2, options_, x));
}

Tensor TransformerDecoderLayer::run(const Tensor& tgt, const Tensor& memory,
                                    const DecoderMasks& masks) {
  if (options_.norm_first) {
    const auto [x, of_x] = norm2(tgt, attend(norm1(tgt), masks));
    const auto [y, of_y] = norm3(x, attend(of_x, memory, masks));
    return y + feed_forward(of_y);
  }
  const Tensor x = norm1(tgt, attend(tgt, masks)).norm;
  const Tensor y = norm2(x, attend(x, memory, masks)).norm;
  return norm3(y, feed_forward(y)).norm;
}

TransformerDecoder::TransformerDecoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerDecoderOptions& options)
    : layers(add<ModuleListOf<TransformerDecoderLayer>>("layers")),
      norm(options.norm ? &add<LayerNorm>("norm", Shape{d_model}, *options.norm) : nullptr) {
  check(num_layers > 0, "TransformerDecoder: num_layers must be positive: got ", num_layers);
  core::check_room("TransformerDecoder", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.append(d_model, nhead, options.layer);
}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const DecoderMasks& masks) {
  return run_hooked({tgt, memory}, [&](const Tensors& in) -> Tensors {
    Tensor x = in[0];
    for (TransformerDecoderLayer& layer : layers) x = layer(x, in[1], masks);
    return {norm != nullptr ? (*norm)(x) : x};
  })[0];
}

Transformer::Transformer(int64_t d_model, int64_t nhead, const TransformerOptions& options)
    : encoder(add<TransformerEncoder>(
          "encoder", d_model, nhead, options.num_encoder_layers,
          TransformerEncoderOptions{options.layer, norm_options(options.layer)})),
      decoder(add<TransformerDecoder>(
          "decoder", d_model, nhead, options.num_decoder_layers,
          TransformerDecoderOptions{options.layer, norm_options(options.layer)})) {
  for (const auto& [name, slot] : slots()) {
    if (slot->tensor.ndim() > 1) slot->init = init::xavier_uniform();
  }
  reset_parameters();
}

Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt,
                               const TransformerMasks& masks) {
  return run_hooked({src, tgt}, [&](const Tensors& in) -> Tensors {
    const EncoderMasks of_encoder{.mask = masks.src_mask,
                                  .src_key_padding_mask = masks.src_key_padding_mask,
                                  .is_causal = masks.src_is_causal};
    const DecoderMasks of_decoder{.tgt_mask = masks.tgt_mask,
                                  .memory_mask = masks.memory_mask,
                                  .tgt_key_padding_mask = masks.tgt_key_padding_mask,
                                  .memory_key_padding_mask = masks.memory_key_padding_mask,
                                  .tgt_is_causal = masks.tgt_is_causal};
    return {decoder(in[1], encoder(in[0], of_encoder), of_decoder)};
  })[0];
}

Tensor Transformer::generate_square_subsequent_mask(int64_t size) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), {.dtype = kFloat32}), 1);
}

}  // namespace hero::nn
