#pragma once
#include <hero/core/device/backend.h>

namespace hero::core {

/// Matrix product, as PyTorch's matmul: [.., M, K] x [.., K, N] gives [.., M, N] with broadcast
/// batch dimensions; an array of one dimension counts as a row on the left and as a column on the
/// right, and this dimension is dropped from the result. Both have the same dtype, which is not
/// bool. Views are read in place; products of 16-bit floats are added up as float32 and rounded
/// once.
Array matmul(const Array& a, const Array& b);

/// \name call::LinearBack by a device's other families: what concerns x, and the rest.
/// \{
void plain_input_backward(const call::LinearBack& back);
void plain_weight_backward(const call::LinearBack& back);
/// \}

}  // namespace hero::core
