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

/// Images of x [N, C, D, H, W] that convolve_on_host() should get at a time, so that their copies
/// with padding stay in the cache; 0 where the windows are better written as columns: on another
/// device, in another dtype than float32 and float64, for one tap, where padding is most of the
/// image, and while work is metered, which counts columns.
int64_t images_on_host(const Array& x, const Window3& window);

/// y [N, O, places..] = w [O, KD C KH KW] times the windows of x [N, C, D, H, W], all of one dtype;
/// w and y are contiguous. The bits are those of a product with columns.
void convolve_on_host(const Array& x, const Array& w, const Window3& window, const Array& y);

}  // namespace hero::core
