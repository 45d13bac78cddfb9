#pragma once
// Sampling of images at points on the host, in one pass.
#include <cstdint>

#include <hero/core/array.h>

namespace hero::core {

/// How a value between pixels is made of theirs, and what lies outside of the image.
struct GridSampling {
  /// What the pixels outside of the image are: zeros, the border's or the image's, reflected.
  enum class Outside : uint8_t { zeros, border, reflection };
  int taps = 2;  ///< pixels along each dimension: 1 the nearest, 2 linear, 4 cubic
  Outside outside = Outside::zeros;
  bool align_corners = false;  ///< -1 and 1 are the centres of corner pixels, else their edges
};

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
