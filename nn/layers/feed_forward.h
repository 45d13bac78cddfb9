#pragma once
// The two linear layers of a Transformer's layer, with their activation and dropout.
#include <hero/nn/transformer.h>

namespace hero::nn {

/// dropout(linear2(dropout(activation(linear1(x))))), where the first layer and the activation are
/// one operation unless a hook on the layer would see its values. `kind` names the layer in errors.
Tensor feed_forward(const char* kind, Linear& linear1, Linear& linear2,
                    const TransformerEncoderLayerOptions& options, bool training, const Tensor& x);

}  // namespace hero::nn
