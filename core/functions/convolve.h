#pragma once
// Convolutions on the host without columns of windows in memory.
#include <hero/core/backend.h>

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

/// \name Of images or volumes: x is [N, C, H, W] or [N, C, D, H, W], y [N, O, places..].
/// \{
/// Images of x that functions below should get at a time, so that their copies with padding stay in
/// the cache; 0 where the windows are better written as columns: on another device, in another
/// dtype than float32 and float64, for one tap, where padding is most of the image, and while work
/// is metered, which counts columns.
int64_t images_on_host(const Array& x, const Window3& window);
/// The same for the gradients, which are of float32 only.
int64_t gradient_images_on_host(const Array& x, const Window3& window);

/// y = w [O, KD C KH KW] times the windows of x, all of one dtype; w and y are contiguous. The bits
/// are those of a product with columns.
void convolve_on_host(const Array& x, const Array& w, const Window3& window, const Array& y);

/// The window by whose convolution of the gradient of y that of x is computed, if windows move by
/// one in planes and their padding lies within the kernel's reach; else it has no taps, and
/// gradient_images_on_host() is 0 for it.
Window3 mirrored(const Window& window);

/// x [N, C, H, W], the gradient of the input of a convolution by w [O, C KH KW], from that of its
/// output, y [N, O, places..], and `window` = mirrored(..) of it; w and x are contiguous. The bits
/// are those of columns that col2im adds up. False, and nothing done, if a weight is not finite.
bool convolve_back_on_host(const Array& y, const Array& w, const Window3& window, const Array& x);

/// w [O, KD C KH KW] = the sum over all images of y times the transposed windows of x; y and w are
/// contiguous. The bits are those of one product with columns for every `chain` images, which are
/// added in order to zeros.
void weights_on_host(const Array& x, const Array& y, const Window3& window, int64_t chain,
                     const Array& w);
/// \}

}  // namespace hero::core
