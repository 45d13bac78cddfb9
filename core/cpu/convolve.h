#pragma once
// Convolutions without columns of windows in memory.
#include <cstdint>

namespace hero::core::cpu {

/// y [images, outputs, places] = w [outputs, rows] times the windows of x, T float or double;
/// windows have three dimensions, the first ones of which may be 1. A row is a tap of the depth, a
/// channel, and a tap of the height and the width, in this order; w and y are contiguous. The bits
/// are those of a product with columns of windows.
template <class T>
struct Convolution {
  int64_t images, channels, outputs;
  int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], places[3];
  const T* x;
  int64_t x_strides[5];  ///< of x [images, channels, size..], in elements
  const T* w;
  T* y;

  void run() const;
};

/// How large a copy of an image with its padding is, in elements, if the sizes are these; -1 where
/// it would be much larger than the image.
int64_t padded_image(int64_t channels, const int64_t (&size)[3], const int64_t (&padding)[3],
                     int64_t width_stride);

}  // namespace hero::core::cpu
