#pragma once
// The positions of the taps of a sliding window.
#include <algorithm>

#include <hero/core/device/backend.h>

namespace hero::core::cpu {

/// One dimension of a window at one of its positions: taps [first, last) are inside the input.
struct Taps {
  int64_t start;        ///< position of tap 0, may be outside
  int64_t first, last;  ///< first <= last
  int64_t counted;      ///< taps at positions below the end of the padded input
};

/// The taps of output place `place` along `axis` (0: rows, 1: columns) of an input of `size`.
inline Taps taps_at(const Window& window, int axis, int64_t place, int64_t size) {
  const int64_t step = window.dilation[axis], kernel = window.kernel[axis];
  const int64_t start = place * window.stride[axis] - window.padding[axis];
  const auto below = [&](int64_t bound) {
    return std::clamp<int64_t>((bound - start + step - 1) / step, 0, kernel);
  };
  const int64_t first = start < 0 ? std::min(kernel, (-start + step - 1) / step) : 0;
  return {start, first, std::max(first, below(size)), below(size + window.padding[axis])};
}

/// One [H, W] plane of an array [N, C, H, W].
template <class T>
struct Plane {
  T* data;
  int64_t row_stride, column_stride;

  Plane(const Array& x, int64_t plane) {
    const int64_t channels = x.shape()[1];
    const int64_t at = plane / channels * x.strides()[0] + plane % channels * x.strides()[1];
    data = reinterpret_cast<T*>(x.bytes()) + at;
    row_stride = x.strides()[2];
    column_stride = x.strides()[3];
  }
  T& at(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

}  // namespace hero::core::cpu
