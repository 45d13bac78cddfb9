#pragma once
// Helpers that several operations share.
#include <hero/autograd/graph/op.h>

namespace hero::detail {

/// Zeros of `shape` with g added at `index` along `dim`: the derivative of gather. As scatter_add
/// into zeros, without copying them.
Tensor scatter_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

/// Zeros of `shape` with the slices of g added at the positions `index` of `dim`: the derivative of
/// index_select.
Tensor index_zeros(const Tensor& g, const Shape& shape, int dim, const Tensor& index);

/// Zeros of `shape` with each element of g added at its place, int64 of g's shape, among all
/// elements row by row: the derivative of a view that may show an element several times.
Tensor place_zeros(const Tensor& g, const Shape& shape, const Array& places);

/// A view from the last element of each of these dimensions to the first, for copies to read: no
/// other kernel takes strides below 0.
Array backwards(const Array& x, const Dims& dims);

/// Refuses tensors of another number of dimensions.
inline void check_ndim(const char* op, const Tensor& x, int ndim) {
  check(x.ndim() == ndim, op, ": needs ", ndim, ndim == 1 ? " dimension" : " dimensions",
        ": got shape ", x.shape());
}

/// `shape` with size 1 in `dims`, which are normalized.
Shape kept_shape(const Shape& shape, const Dims& dims);

/// `shape` without `dims`, which are normalized.
Shape dropped_shape(const Shape& shape, const Dims& dims);

/// Every dim counted from the front, in their order, duplicates refused.
Dims counted_dims(const char* op, const Dims& dims, int ndim);

/// Positions in a dimension of `size`, int64, counted from the front where they count from the end.
/// What lies before the beginning stays, so that an error names it as it was given.
Tensor counted_positions(const Tensor& index, int64_t size);

/// int64 0, 1, ... count - 1 on `device`.
Array positions(int64_t count, Device device);

}  // namespace hero::detail
