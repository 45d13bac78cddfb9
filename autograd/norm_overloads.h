#pragma once
// Another way to call rms_norm() of nn_ops.h, which includes this file: over several dimensions.
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

namespace detail {
/// rms_norm() over the trailing `normalized_shape`.
Tensor rms_norm_over(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                     std::optional<double> eps);
}  // namespace detail

/// Does what rms_norm(x, weight, eps) does, with the mean over the trailing `normalized_shape`,
/// which is that of weight, too. It is a template, so that {} still means no weight.
template <std::same_as<Shape> S = Shape>
Tensor rms_norm(const Tensor& x, const S& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {}) {
  return detail::rms_norm_over(x, normalized_shape, weight, eps);
}

}  // namespace hero
