#pragma once
// Helpers that several operations share.
#include <hero/autograd/graph/op.h>

namespace hero::detail {

/// Zeros of `shape` with g added at `index` along `dim`: the derivative of gather(). It is
/// scatter_add() into zeros that are not copied.
Tensor scatter_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

/// Zeros of `shape` with the slices of g added at the positions `index` of `dim`: the derivative of
/// index_select.
Tensor index_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

/// Zeros of `shape` with each element of g added at its position among all elements in row-major
/// order, int64 of g's shape: the derivative of a view that may have an element several times.
Tensor place_zeros(const Tensor& g, const Shape& shape, const Array& places);

/// A view with these dimensions in reverse order, which only copies may read, since no other kernel
/// takes strides below 0.
Array backwards(const Array& x, const Dims& dims);

/// Throws an Error if x does not have `ndim` dimensions.
inline void check_ndim(const char* op, const Tensor& x, int ndim) {
  check(x.ndim() == ndim, op, ": needs ", ndim, ndim == 1 ? " dimension" : " dimensions",
        ": got shape ", x.shape());
}

/// `shape` with size 1 in `dims`, which are normalized.
Shape kept_shape(const Shape& shape, const Dims& dims);

/// `shape` without `dims`, which are normalized.
Shape dropped_shape(const Shape& shape, const Dims& dims);

/// The dims counted from the front, in their order; throws an Error for duplicates.
Dims counted_dims(const char* op, const Dims& dims, int ndim);

/// Positions in a dimension of `size`, int64, with those below 0, which count from the end, counted
/// from the front. A position before the beginning stays as it is, so that errors name it as it was
/// given.
Tensor counted_positions(const Tensor& index, int64_t size);

/// int64 0, 1, ... count - 1 on `device`.
Array positions(int64_t count, Device device);

}  // namespace hero::detail
