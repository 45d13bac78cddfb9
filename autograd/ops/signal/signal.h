#pragma once
// Windows of signals, as torch.signal.windows has them.
#include <hero/autograd/ops/creation/creation.h>

namespace hero {

/// \name Windows
/// Vectors [window_length] of weights for the samples k = 0, 1, ... of a piece of a signal, which
/// fall off towards its ends. A periodic window, as for a Fourier transform, is a symmetric one
/// with one more element, without its last element. They are computed in double and rounded to the
/// dtype, float32 unless another floating one is given. A window of one element is [1]; a negative
/// length is an Error. Below, n is window_length for a periodic window and window_length - 1 for a
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

}  // namespace hero
