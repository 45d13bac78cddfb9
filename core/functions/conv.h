#pragma once
// Convolutions on the host without columns of windows in memory.
#include <hero/core/device/backend.h>

namespace hero::core {

/// Windows of three dimensions.
struct Window3 {
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
};
/// How a window moves along the depth.
struct DepthWindow {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};
/// A window in planes, and one along the depth.
Window3 volume_window(const Window& plane, const DepthWindow& depth = {});

/// What is applied to the products of a convolution while they are in the cache: the bias of the
/// outputs, of any shape, if it is defined, and the activation, none or relu.
struct ConvolutionEnd {
  Array bias;
  Activation activation = Activation::none;
};

/// Whether the machine multiplies numbers of x's dtype without conversion: bfloat16 on the cpu, or
/// on meta that is planned for it, while native_half_products() is true. Then operands of
/// convolutions are not converted, and sums are float32.
bool has_native_products(const Array& x);

/// \name Of images or volumes: x is [N, C, H, W] or [N, C, D, H, W], y [N, O, places..].
/// All arrays are of one dtype. Copies of some images with their padding are made at a time, so
/// that they stay in the cache.
/// \{
/// Whether convolve_on_host() takes these operands. It does not on another device, in another dtype
/// than float32, float64 and those of has_native_products(), or if padding is most of the image;
/// nor, except for native products, for one tap, or while work is metered, which counts columns.
/// Native products of arrays on meta are metered and not computed. Groups, of planes only, are
/// neither of float64 nor of more than 256 channels.
bool convolves_on_host(const Array& x, const Window3& window, int64_t groups = 1);
/// The same for the gradient of the weight, which is not of float64.
bool has_gradients_on_host(const Array& x, const Window3& window);
/// The same in groups, for a weight of shape `w`; native products are of one channel and one
/// output.
bool has_group_weights_on_host(const Array& x, const Shape& w, const Window3& window,
                               int64_t groups);
/// The same for the gradient of the input, of shape `x`, of a convolution in planes to y; not for
/// one of four channels or fewer whose windows move by more than one.
bool convolves_back_on_host(const Array& y, const Shape& x, const Window3& window, int64_t groups);

/// y = w [O, KD C / groups KH KW] times the windows of x, and `end`; w and y are contiguous, and
/// with groups x is, too. The bits are those of a product with columns.
void convolve_on_host(const Array& x, const Array& w, const Window3& window, int64_t groups,
                      const ConvolutionEnd& end, const Array& y);

/// x [N, C, H, W], the gradient of the input of a convolution by w [O, C / groups KH KW], from that
/// of its output, y [N, O, places..], and a bias [C] of x, if any; all are contiguous. In float32
/// the bits are those of columns that col2im adds up; a native product is one sum over the taps
/// that reach a place, in order, and for each tap the channels of y in the group. False, and
/// nothing done, if a weight is not finite.
bool convolve_back_on_host(const Array& y, const Array& w, const Window3& window, int64_t groups,
                           const Array& bias, const Array& x);

/// w [O, KD C KH KW] = the sum over all images of y times the transposed windows of x; y and w are
/// contiguous. In float32 the bits are those of one product with columns for every `chain` images,
/// which are added in order to zeros. Native ones are products for every native_weight_images(),
/// which are added in order, and rounded once; an image with an odd number of places counts as one
/// with a zero behind them. In groups there is a product for every image, and x is contiguous; of
/// volumes in float32 there is one for every `chain` planes of the output.
void weights_on_host(const Array& x, const Array& y, const Window3& window, int64_t groups,
                     int64_t chain, const Array& w);
int64_t native_weight_images(const Array& x, const Window3& window);
/// \}

}  // namespace hero::core
