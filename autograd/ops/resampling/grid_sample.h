#pragma once
// What grid_sample() means, of other operations.
#include <hero/autograd/ops/resampling/interpolate.h>

namespace hero::detail {

/// grid_sample() of float32 or float64 that have been checked: what kernels are compared with, and
/// what is differentiated twice, and computed where there is no kernel.
Tensor composed_grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options);

}  // namespace hero::detail
