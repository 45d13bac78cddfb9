#pragma once
// Convolutions and their gradients without columns of windows in memory.
#include <cstdint>

#include <hero/core/cpu/products/gemm_bf16.h>

namespace hero::core::cpu {

/// Windows of x [images, channels, size..] with three dimensions, the first ones of which may be 1.
/// A row of windows is a tap of the depth, a channel, and a tap of the height and the width, in
/// this order. All other arrays are contiguous.
struct Convolution {
  int64_t images, channels, outputs;
  int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], places[3];
  const void* x;         ///< elements of the type T of the function
  int64_t x_strides[5];  ///< in elements
  int64_t at_once;       ///< images whose padded copies are made at a time
  int64_t groups = 1;    ///< of channels, and of outputs; in planes only

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Whether each channel is a group, with one output.
  bool is_depthwise() const { return groups > 1 && groups == channels && groups == outputs; }
};

/// y [images, outputs, places..] = w [outputs, rows] times the windows, for T float or double, with
/// the bits of a product with columns of windows. Groups are of float only; a row of windows has
/// the channels of one.
template <class T>
void convolve(const Convolution& of, const T* w, T* y);

/// Whether the weight's gradient of a group with this many channels and outputs is faster with
/// channels in the lanes of vectors than as a product for each group.
inline bool have_lanes(int64_t channels, int64_t outputs) {
  return channels >= 4 && channels <= 32 && outputs >= 4 && outputs <= 64;
}
/// The same of bfloat16, whose products with columns of windows are twice as fast: of windows of
/// several taps where two groups share a vector, planes of x are small, or windows move by more
/// than one.
inline bool have_half_lanes(int64_t channels, int64_t outputs, int64_t taps, int64_t stride,
                            int64_t area) {
  const int64_t most = area <= 64 ? 32 : 16;
  return have_lanes(channels, outputs) && channels >= 8 && channels <= most && taps > 1 &&
         (channels == 8 || area <= 256 || stride > 1);
}

/// \name Gradients, of float only: others are products with columns.
/// \{
/// The gradient of the input of a convolution in planes. `of` describes the convolution, except
/// that x is the gradient of its output, of sizes `size`, with its outputs as channels, and y
/// [images, outputs, places..] the gradient of its input. w is [channels, outputs / groups, taps].
/// The bits are those of columns that are added up tap by tap; false, and nothing done, if a weight
/// is not finite, as zeros around x would become NaN.
bool convolve_back(const Convolution& of, const float* w, float* y);
/// w [outputs, rows] += y [images, outputs, places..] times the transposed windows, a product over
/// the places of all images, one image after the other. If `fresh`, w counts as zeros, and there
/// may be one product for every `chain` images, whose places together are at most one block of k.
/// All images are copied at once. In groups each image is a product, x is contiguous, and w is
/// `fresh`. Of a volume, one image, there is a product for every `chain` planes of places.
void add_weights(const Convolution& of, const float* y, int64_t chain, bool fresh, float* w);
/// \}

/// What is applied to the sums of a convolution: the bias of each output, if any, and relu, if
/// asked for.
struct HalfEnd {
  const float* bias = nullptr;
  bool is_relu = false;
};

/// \name Of bfloat16, by a kernel whose instructions the processor has
/// Sums are those of gemm_bf16(), and are rounded once.
/// \{
/// y [images, outputs, places..] = w [outputs, rows] times the windows, and what follows.
void convolve_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* w,
                   const HalfEnd& end, BFloat16* y);
/// As convolve_back(), except for the order of sums: each is one sum over the taps that reach a
/// place, in order, and for each tap over the channels of x in its group.
bool convolve_back_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* w,
                        const HalfEnd& end, BFloat16* y);
/// w [outputs, rows] = y [images, outputs, places..] times the transposed windows: a product over
/// the places of at_once images, one image after the other, an odd number of places beside a zero,
/// and the products of all images added up in order. Groups, by dot_kernel() only, are of planes;
/// then each image is a product, and x is contiguous.
void weights_bf16(const bf16::TileKernel& kernel, const Convolution& of, const BFloat16* y,
                  BFloat16* w);
/// \}

/// The padding along axis `axis` of the copy of x that convolve_back() makes, which is that of a
/// convolution of stride 1.
int64_t back_padding(const Convolution& of, int axis);

/// The elements of a copy of an image with its padding, for these sizes; -1 if the copy would be
/// much larger than the image.
int64_t padded_image(int64_t channels, const int64_t (&size)[3], const int64_t (&padding)[3],
                     int64_t width_stride);

}  // namespace hero::core::cpu
