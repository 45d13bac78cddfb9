#pragma once
#include <hero/autograd/ops/windows/interpolate.h>

namespace hero::detail {

/// conv3d() of x [N, C, D, H, W] without groups.
Tensor conv3d_of_all(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Conv3dOptions& options);

}  // namespace hero::detail
