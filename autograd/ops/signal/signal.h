#pragma once
// What is done to samples of signals: windows, derivatives by differences, histograms.
#include <utility>
#include <vector>

#include <hero/autograd/ops/creation/creation.h>

namespace hero {

/// \name Windows
/// Vectors [window_length] of weights for the samples k = 0, 1, ... of a piece of a signal, which
/// fall off towards its ends. A periodic window is the first part of a symmetric one with one more
/// element, as a Fourier transform wants it. They are computed in double and rounded to the dtype,
/// float32 unless another floating one is given. A window of one element is [1]; a negative length
/// is an Error. Below, n is window_length for a periodic window and window_length - 1 for a
/// symmetric one.
/// \{
/// 1/2 - 1/2 cos(2 pi k / n)
Tensor hann_window(int64_t window_length, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta cos(2 pi k / n)
Tensor hamming_window(int64_t window_length, bool periodic = true, double alpha = 0.54,
                      double beta = 0.46, const TensorOptions& options = {});
/// 0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)
Tensor blackman_window(int64_t window_length, bool periodic = true,
                       const TensorOptions& options = {});
/// 1 - |2 k / n - 1|, a triangle.
Tensor bartlett_window(int64_t window_length, bool periodic = true,
                       const TensorOptions& options = {});
/// I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta), with the modified Bessel function I0. Kaiser and
/// Schafer, IEEE Trans. ASSP 28, 1980.
Tensor kaiser_window(int64_t window_length, bool periodic = true, double beta = 12.0,
                     const TensorOptions& options = {});
/// \}

/// \name Periodic windows in another dtype or on another device: hann_window(400, {.device =
/// kMeta})
/// \{
inline Tensor hann_window(int64_t window_length, const TensorOptions& options) {
  return hann_window(window_length, true, options);
}
inline Tensor hamming_window(int64_t window_length, const TensorOptions& options) {
  return hamming_window(window_length, true, 0.54, 0.46, options);
}
inline Tensor blackman_window(int64_t window_length, const TensorOptions& options) {
  return blackman_window(window_length, true, options);
}
inline Tensor bartlett_window(int64_t window_length, const TensorOptions& options) {
  return bartlett_window(window_length, true, options);
}
inline Tensor kaiser_window(int64_t window_length, const TensorOptions& options) {
  return kaiser_window(window_length, true, 12.0, options);
}
/// \}

/// Options of gradient().
struct GradientOptions {
  /// The distance of neighbours: one for all dimensions, or one for each.
  std::vector<double> spacing = {1.0};
  /// Instead of distances, the places of the points along each dimension, as vectors.
  std::vector<Tensor> coordinates = {};
  Dims dim = {};           ///< the dimensions; all when empty
  int64_t edge_order = 1;  ///< 1 or 2: the order of what is exact at both ends
};
/// The derivatives of what x has samples of, along each of the dimensions, in x's shape: inside, by
/// both neighbours, exact for parabolas; at the ends, by one neighbour or two. Integers give
/// float32. This is torch.gradient, not the gradient of a recorded graph. An Error if a dimension
/// has fewer than edge_order + 1 points, or lists do not fit.
std::vector<Tensor> gradient(const Tensor& x, const GradientOptions& options = {});

/// What histogram() returns.
struct Histogram {
  Tensor hist;       ///< [bins]: how many elements lie in each bin, in x's dtype
  Tensor bin_edges;  ///< [bins + 1], in x's dtype
};
/// Options of histogram().
struct HistogramOptions {
  /// The first and the last edge, for a number of bins; the smallest and the largest element when
  /// absent, one half less and more if both are the same.
  std::optional<std::pair<double, double>> range = {};
  Tensor weight = {};    ///< in x's shape: what each element counts; 1 when undefined
  bool density = false;  ///< true: the counts over their sum and the widths of the bins
};
/// Counts the elements of floating x in `bins` bins of equal width. A bin contains its left edge,
/// and the last one its right edge, too; elements outside do not count, nor does NaN. Without
/// derivative.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
/// The same in bins between these edges, a vector that rises.
Histogram histogram(const Tensor& x, const Tensor& bins, const HistogramOptions& options = {});

}  // namespace hero
