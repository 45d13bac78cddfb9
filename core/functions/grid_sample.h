#pragma once
// Sampling of images at points on the host, in one pass.
#include <hero/core/array.h>
#include <hero/core/device/backend_arguments.h>

namespace hero::core {

/// Whether the functions below take an image x: float32 or float64 on the cpu, or on meta that is
/// planned for the cpu, where work is charged and nothing computed. On other devices, callers
/// compose them of maps and gathers.
bool samples_on_host(const Array& x);

/// \name Of x [N, C, sizes..] in two or three dimensions at grid [N, points.., dims].
/// \{
/// The samples [N, C, points..].
Array grid_sample(const GridSampling& how, const Array& x, const Array& grid);
/// The gradient of x, which has this shape, given g, the gradient of the samples.
Array grid_sample_back_x(const GridSampling& how, const Array& g, const Shape& x,
                         const Array& grid);
/// The gradient of grid, given g, the gradient of the samples.
Array grid_sample_back_grid(const GridSampling& how, const Array& g, const Array& x,
                            const Array& grid);
/// \}

}  // namespace hero::core
