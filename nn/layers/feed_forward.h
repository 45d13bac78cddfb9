#pragma once
// Common parts of the layers of a Transformer's encoder and decoder.
#include <hero/nn/transformer.h>

namespace hero::nn {

/// linear2(dropout(activation(linear1(x)))), where the first layer and the activation are one
/// operation unless a hook on the layer would see its values. `kind` names the layer in errors.
Tensor feed_forward(const char* kind, Linear& linear1, Dropout& dropout, Linear& linear2,
                    const TransformerEncoderLayerOptions& options, const Tensor& x);

/// \name Options of the parts of a layer.
/// \{
LayerNormOptions norm_options(const TransformerEncoderLayerOptions& options);
MultiheadAttentionOptions attention_options(const TransformerEncoderLayerOptions& options);
/// \}

}  // namespace hero::nn
