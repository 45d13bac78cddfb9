#pragma once
// Arrays seen as lines along one dimension, and the types in which kernels move elements.
#include <cstdint>

#include <hero/core/array.h>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/layout.cuh>

namespace hero::cuda {

/// Calls body(TypeTag<W>{}) with the unsigned type W as wide as an element, for kernels that only
/// move elements.
template <class Body>
void dispatch_word(DType dtype, Body&& body) {
  switch (item_size(dtype)) {
    case 1:
      return body(TypeTag<uint8_t>{});
    case 2:
      return body(TypeTag<uint16_t>{});
    case 4:
      return body(TypeTag<uint32_t>{});
    default:
      return body(TypeTag<uint64_t>{});
  }
}

/// The view with `dim` moved last; a number becomes one line of one element.
inline core::Array lines_along(const core::Array& x, int dim) {
  if (x.ndim() == 0) return x.unsqueeze(0);
  Dims order;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != dim) order.push_back(i);
  }
  order.push_back(dim);
  return x.permute(order);
}

/// x as if it had `shape`, with its own strides; the elements are there or `dim` has stride 0.
inline core::Array fixed_along(const core::Array& x, int dim, const Shape& shape) {
  Dims strides = x.strides();
  if (dim < strides.size()) strides[dim] = 0;
  return core::Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

inline int64_t stride_along(const core::Array& x, int dim) {
  return dim < x.ndim() ? x.strides()[dim] : 0;
}

/// [outer, size, inner] of a contiguous array's dimensions around `dim`.
struct Slabs {
  int64_t outer = 1, inner = 1;
  Slabs(const Shape& shape, int dim) {
    for (int i = 0; i < shape.size(); ++i) {
      if (i < dim) outer *= shape[i];
      if (i > dim) inner *= shape[i];
    }
  }
};

/// Whether rows of this length can be read `bytes` at a time from `first` on.
inline bool aligned_to(const void* first, int64_t bytes, int64_t row_bytes) {
  return aligned(first, static_cast<size_t>(bytes)) && row_bytes % bytes == 0;
}

}  // namespace hero::cuda
