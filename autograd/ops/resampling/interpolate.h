#pragma once
// Resampling of images and sampling at points.
#include <vector>

#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/tensor.h>

namespace hero {

/// \name Resampling
/// \{
/// How interpolate() computes new pixels.
enum class Interpolation {
  /// Pixel floor(i in / out).
  nearest,
  /// Pixel floor((i + 1/2) in / out).
  nearest_exact,
  /// Linear, for [N, C, L].
  linear,
  /// Bilinear, for [N, C, H, W].
  bilinear,
  /// Bicubic, for [N, C, H, W], with a = -0.75. Keys, IEEE TASSP 29, 1981.
  bicubic,
  /// Trilinear, for [N, C, D, H, W].
  trilinear,
  area  ///< means of the cells of adaptive_avg_pool2d
};
/// Options of interpolate().
struct InterpolateOptions {
  /// The new sizes of the dimensions after N and C, or one for all of them. Give either these or
  /// scale_factor.
  std::vector<int64_t> size = {};
  /// The new size divided by the old one, for each dimension or one for all; new sizes are rounded
  /// down.
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;  ///< how new pixels are computed
  /// True: the centres of the corner pixels keep their values; for the linear modes and bicubic
  /// only.
  bool align_corners = false;
  /// True: positions are computed from the sizes, not from scale_factor.
  bool recompute_scale_factor = false;
  /// True: when an image shrinks, each new pixel is a mean over all old pixels that it covers; for
  /// bilinear and bicubic only (for which a is then -0.5), without align_corners.
  bool antialias = false;
};
/// Resamples x [N, C, ..], which has one to three dimensions after C. It has derivatives of any
/// order.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// The older name of interpolate().
Tensor upsample(const Tensor& x, const InterpolateOptions& options);
/// Nearest neighbours: pixel i of o takes the value of pixel floor(i n / o) of n.
Tensor upsample_nearest2d(const Tensor& x, Pair output_size);
/// \}

/// \name Sampling at points
/// \{
/// How grid_sample() computes values between pixels.
enum class GridMode { bilinear, nearest, bicubic };
/// What grid_sample() takes for pixels outside of the image.
enum class GridPadding { zeros, border, reflection };
/// Options of grid_sample().
struct GridSampleOptions {
  /// For volumes bilinear is trilinear, and bicubic is an Error.
  GridMode mode = GridMode::bilinear;
  GridPadding padding_mode = GridPadding::zeros;  ///< the pixels outside of the image
  /// True: -1 and 1 are the centres of corner pixels, else their edges.
  bool align_corners = false;
};
/// Samples x [N, C, H, W] at the points grid [N, h, w, 2] (x before y, with -1 and 1 at the
/// borders), which gives [N, C, h, w]; or x [N, C, D, H, W] at grid [N, d, h, w, 3]. Outside of the
/// image there are zeros, the border's pixels, or the image reflected. NaN counts as -1. Jaderberg
/// et al., arXiv 1506.02025.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
/// The grid of points for grid_sample() that the affine maps theta [N, 2, 3] give for images of
/// size [N, C, H, W], or theta [N, 3, 4] for volumes of size [N, C, D, H, W].
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);
/// \}

}  // namespace hero
