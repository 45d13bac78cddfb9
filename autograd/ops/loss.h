#pragma once
// What the losses share.
#include <hero/autograd/nn_ops.h>

namespace hero::detail {

/// The loss itself, its mean or its sum.
Tensor reduce_loss(const Tensor& loss, Reduction reduction);

/// Throws unless x is floating and the shapes are equal: [N, 1] against [N] would silently compare
/// all pairs.
void check_pair(const char* op, const Tensor& x, const Tensor& y);

/// cross_entropy against probabilities of x's shape instead of class numbers.
Tensor cross_entropy_probabilities(const Tensor& x, const Tensor& target,
                                   const CrossEntropyOptions& options);

}  // namespace hero::detail
