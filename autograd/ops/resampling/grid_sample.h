#pragma once
// The composed definition of grid_sample().
#include <hero/autograd/ops/resampling/interpolate.h>

namespace hero::detail {

/// grid_sample() by other operations, of arguments of float32 or float64 that have been checked.
/// Kernels are compared with it; it is used for second derivatives, and on devices without a
/// kernel.
Tensor composed_grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options);

}  // namespace hero::detail
