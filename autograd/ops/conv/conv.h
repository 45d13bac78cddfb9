#pragma once
// Convolutions (cross-correlations) in one, two and three dimensions, their transposes, and windows
// as columns (im2col).
#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/tensor.h>

namespace hero {

/// \name Convolution
/// \{
/// Options of conv1d().
struct Conv1dOptions {
  int64_t stride = 1;    ///< positions from one window to the next
  int64_t padding = 0;   ///< zeros on each side
  int64_t dilation = 1;  ///< positions from one tap to the next
  int64_t groups = 1;    ///< groups of channels that are convolved separately
};
/// Convolution of x [N, C, L] with weight [O, C / groups, K] and bias [O], which may be undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
/// Options of conv2d().
struct Conv2dOptions {
  Pair stride = {1, 1};    ///< positions from one window to the next
  Pair padding = {0, 0};   ///< zeros on each side
  Pair dilation = {1, 1};  ///< positions from one tap to the next
  int64_t groups = 1;      ///< groups of channels that are convolved separately
};
/// Convolution of x [N, C, H, W] with weight [O, C / groups, KH, KW] and bias [O], which may be
/// undefined.
/// \snippet test_examples_tensors.cpp conv2d
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});
/// relu(conv2d(x, weight, bias, options)) in one operation, which keeps only its input and output.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const Conv2dOptions& options = {});
/// Options of conv3d().
struct Conv3dOptions {
  Triple stride = {1, 1, 1};    ///< positions from one window to the next
  Triple padding = {0, 0, 0};   ///< zeros on each side
  Triple dilation = {1, 1, 1};  ///< positions from one tap to the next
  int64_t groups = 1;           ///< groups of channels that are convolved separately
};
/// Convolution of x [N, C, D, H, W] with weight [O, C / groups, KD, KH, KW] and bias [O]; the
/// result is [N, O, D', H', W'].
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {});
/// \}

/// \name Transposed convolution
/// \{
/// Options of conv_transpose2d().
struct ConvTranspose2dOptions {
  Pair stride = {1, 1};          ///< positions of the output from one input element to the next
  Pair padding = {0, 0};         ///< elements that are cut off on each side of the output
  Pair output_padding = {0, 0};  ///< elements that the output has more at its end
  Pair dilation = {1, 1};        ///< positions from one tap to the next
  int64_t groups = 1;            ///< groups of channels that are convolved separately
};
/// The transpose of conv2d(), for x [N, C, H, W], weight [C, O / groups, KH, KW] and bias [O].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
/// Options of conv_transpose1d().
struct ConvTranspose1dOptions {
  int64_t stride = 1;          ///< positions of the output from one input element to the next
  int64_t padding = 0;         ///< elements that are cut off on each side of the output
  int64_t output_padding = 0;  ///< elements that the output has more at its end
  int64_t dilation = 1;        ///< positions from one tap to the next
  int64_t groups = 1;          ///< groups of channels that are convolved separately
};
/// The transpose of conv1d(), for x [N, C, L], weight [C, O / groups, K] and bias [O].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
/// Options of conv_transpose3d().
struct ConvTranspose3dOptions {
  Triple stride = {1, 1, 1};   ///< positions of the output from one input element to the next
  Triple padding = {0, 0, 0};  ///< elements that are cut off on each side of the output
  Triple output_padding = {0, 0, 0};  ///< elements that the output has more at its end
  Triple dilation = {1, 1, 1};        ///< positions from one tap to the next
  int64_t groups = 1;                 ///< groups of channels that are convolved separately
};
/// The transpose of conv3d(), with weight [C, O / groups, KD, KH, KW] and bias [O].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});
/// \}

/// \name Convolutions that keep the size: stride 1, zeros on both sides, one more at the end if the
/// kernel's reach is even
/// \{
/// The padding: `same` adds as many zeros as keep the size, `valid` adds none.
enum class PaddingWord { same, valid };
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              int64_t dilation = 1, int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Pair dilation = {1, 1}, int64_t groups = 1);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Triple dilation = {1, 1, 1}, int64_t groups = 1);
/// \}

/// \name Windows as columns
/// \{
/// Options of unfold() and fold().
struct UnfoldOptions {
  Pair dilation = {1, 1};  ///< pixels from one element of a window to the next
  Pair padding = {0, 0};   ///< zeros on each side
  Pair stride = {1, 1};    ///< pixels from one window to the next
};
/// The windows of images x [N, C, H, W] or [C, H, W] as columns [N, C KH KW, windows]: im2col.
Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options = {});
/// Adds columns [N, C KH KW, windows], or without N, up to images [N, C, output_size]: the
/// transpose of unfold().
Tensor fold(const Tensor& columns, Pair output_size, Pair kernel_size,
            const UnfoldOptions& options = {});
/// \}

}  // namespace hero
