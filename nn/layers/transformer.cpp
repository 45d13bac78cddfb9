#include <hero/core/memory/allocator.h>
#include <hero/nn/layers/feed_forward.h>
#include <hero/nn/transformer.h>

namespace hero::nn {

LayerNormOptions norm_options(const TransformerEncoderLayerOptions& options) {
  return {.eps = options.layer_norm_eps, .bias = options.bias};
}

MultiheadAttentionOptions attention_options(const TransformerEncoderLayerOptions& options) {
  return {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first};
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerEncoderLayerOptions& options)
    : self_attn(add<MultiheadAttention>("self_attn", d_model, nhead, attention_options(options))),
      linear1(add<Linear>("linear1", d_model, options.dim_feedforward,
                          LinearOptions{.bias = options.bias})),
      dropout(add<Dropout>("dropout", options.dropout)),
      linear2(add<Linear>("linear2", options.dim_feedforward, d_model,
                          LinearOptions{.bias = options.bias})),
      norm1(add<LayerNorm>("norm1", Shape{d_model}, norm_options(options))),
      norm2(add<LayerNorm>("norm2", Shape{d_model}, norm_options(options))),
      dropout1(add<Dropout>("dropout1", options.dropout)),
      dropout2(add<Dropout>("dropout2", options.dropout)),
      options_(options) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const EncoderMasks& masks) {
  return run_hooked({src}, [&](const Tensors& in) -> Tensors { return {run(in[0], masks)}; })[0];
}

Tensor TransformerEncoderLayer::forward(const Tensor& src) { return run(src, {}); }

ParallelForm TransformerEncoderLayer::parallel_form() const {
  return {.cuts = {{"linear1", Cut::colwise}, {"linear2", Cut::rowwise}}};
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncoderMasks& masks) {
  const MultiheadAttentionInputs inputs{.key_padding_mask = masks.src_key_padding_mask,
                                        .need_weights = false,
                                        .attn_mask = masks.mask,
                                        .is_causal = masks.is_causal};
  return dropout1(self_attn(x, x, x, inputs).output);
}

Tensor feed_forward(const char* kind, Linear& linear1, Dropout& dropout, Linear& linear2,
                    const TransformerEncoderLayerOptions& options, const Tensor& x) {
  const bool use_relu = options.activation == FeedForwardActivation::relu;
  Tensor hidden;
  if (linear1.has_hooks_for_values()) {
    const Tensor wide = linear1(x);
    hidden = use_relu ? relu(wide) : gelu(wide);
  } else {
    hidden = linear1.run_fused(x, [&](const Tensor& in) {
      return use_relu ? linear_relu(in, linear1.weight, linear1.bias)
                      : linear_gelu(in, linear1.weight, linear1.bias);
    });
  }
  const double p = options.dropout;
  check(hidden.size(-1) == options.dim_feedforward || p == 0.0 || !dropout.training(), kind,
        ": dropout ", p, " of ", hidden.size(-1), " of ", options.dim_feedforward,
        " hidden units would not be that of all; train with dropout 0 where they are cut");
  return linear2(dropout(hidden));
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  return dropout2(
      nn::feed_forward("TransformerEncoderLayer", linear1, dropout, linear2, options_, x));
}

Tensor TransformerEncoderLayer::run(const Tensor& src, const EncoderMasks& masks) {
  if (options_.norm_first) {
    const auto [x, norm] = norm2(src, attend(norm1(src), masks));
    return x + feed_forward(norm);
  }
  const Tensor x = norm1(src, attend(src, masks)).norm;
  return norm2(x, feed_forward(x)).norm;
}

TransformerEncoder::TransformerEncoder(int64_t d_model, int64_t nhead, int64_t num_layers,
                                       const TransformerEncoderOptions& options)
    : layers(add<ModuleListOf<TransformerEncoderLayer>>("layers")),
      norm(options.norm ? &add<LayerNorm>("norm", Shape{d_model}, *options.norm) : nullptr) {
  check(num_layers > 0, "TransformerEncoder: num_layers must be positive: got ", num_layers);
  core::check_room("TransformerEncoder", num_layers);
  for (int64_t i = 0; i < num_layers; ++i) layers.append(d_model, nhead, options.layer);
}

Tensor TransformerEncoder::operator()(const Tensor& src, const EncoderMasks& masks) {
  return run_hooked({src}, [&](const Tensors& in) -> Tensors { return {run(in[0], masks)}; })[0];
}

Tensor TransformerEncoder::forward(const Tensor& src) { return run(src, {}); }

Tensor TransformerEncoder::run(const Tensor& src, const EncoderMasks& masks) {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return norm != nullptr ? (*norm)(x) : x;
}

}  // namespace hero::nn
