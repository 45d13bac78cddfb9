#pragma once
// The address of element i of an array, for host and device.
#include <hero/core/array.h>
#include <hero/core/kernels/config.h>

namespace hero::cuda {

/// Shape and strides of an array with neighbouring dimensions joined where memory allows; passed to
/// kernels by value.
struct Layout {
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims];

  explicit Layout(const core::Array& array) : Layout(array.shape(), array.strides()) {}
  Layout(const Shape& shape, const Dims& steps) {
    for (int d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      if (ndim > 0 && strides[ndim - 1] == steps[d] * shape[d]) {
        sizes[ndim - 1] *= shape[d];
        strides[ndim - 1] = steps[d];
      } else {
        sizes[ndim] = shape[d];
        strides[ndim++] = steps[d];
      }
    }
  }
  /// True if elements are contiguous.
  HERO_HD bool dense() const { return ndim == 0 || (ndim == 1 && strides[0] == 1); }
  /// The offset of row-major element i, in elements, from the array's first.
  HERO_HD int64_t at(int64_t i) const {
    int64_t place = 0;
    for (int d = ndim - 1; d > 0; --d) {
      const int64_t above = i / sizes[d];
      place += (i - above * sizes[d]) * strides[d];
      i = above;
    }
    return ndim > 0 ? place + i * strides[0] : 0;
  }
};

}  // namespace hero::cuda
