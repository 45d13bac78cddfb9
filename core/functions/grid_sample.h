#pragma once
// Sampling of images at points on the host, in one pass.
#include <hero/core/array.h>
#include <hero/core/device/backend_arguments.h>

namespace hero::core {

/// Whether the functions below take an image x: one of float32 or float64 on the cpu, or on meta
/// that is planned for it, where work is charged and nothing computed. Other devices compose what
/// they do of maps and gathers.
bool samples_on_host(const Array& x);

/// \name Of x [N, C, sizes..] in two or three dimensions at grid [N, points.., dims].
/// \{
/// The samples [N, C, points..].
Array grid_sample(const GridSampling& how, const Array& x, const Array& grid);
/// The gradient of x, of this shape, from g, that of the result.
Array grid_sample_back_x(const GridSampling& how, const Array& g, const Shape& x,
                         const Array& grid);
/// The gradient of grid.
Array grid_sample_back_grid(const GridSampling& how, const Array& g, const Array& x,
                            const Array& grid);
/// \}

}  // namespace hero::core
