#pragma once
// Helpers of reading and writing through indices: walking an index beside an array, and arrays as
// slabs. Only core/cpu/index/*.cpp includes this. Functions marked noinline have large code for
// little work.
#include <hero/core/cpu/block_io.h>

namespace hero::core::cpu {

// x with `dim` pinned to its first position, to be walked beside an index of shape `shape`.
[[gnu::noinline]] inline Array pin(const Array& x, int dim, const Shape& shape) {
  Dims strides = x.strides();
  if (dim < strides.size()) strides[dim] = 0;
  return Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

inline int64_t stride_of(const Array& x, int dim) { return dim < x.ndim() ? x.strides()[dim] : 0; }

// A list of positions along `dim` as an index of the full shape, without copying it.
[[gnu::noinline]] inline Array spread(const Array& index, int dim, const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 0);
  if (dim < shape.size()) strides[dim] = index.ndim() > 0 ? index.strides()[0] : 0;
  return Array(index.storage_ref(), shape, strides, index.offset(), index.dtype());
}

// The list that an index repeats along all other dimensions; undefined if it is no such index.
[[gnu::noinline]] inline Array list_of(const Array& index, int dim) {
  for (int i = 0; i < index.ndim(); ++i) {
    if (i != dim && index.strides()[i] != 0 && index.shape()[i] != 1) return {};
  }
  return Array(index.storage_ref(), {index.shape()[dim]}, {index.strides()[dim]}, index.offset(),
               index.dtype());
}

inline const int64_t* as_indices(const std::byte* block) {
  return reinterpret_cast<const int64_t*>(block);
}

// [outer, size, inner] of an array whose inner part is dense.
struct Slabs {
  bool dense = false;
  int64_t outer = 1, inner = 1;
};

[[gnu::noinline]] inline Slabs slabs(const Array& x, int dim) {
  Slabs result;
  result.dense = x.is_contiguous() && x.ndim() > 0;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < dim) result.outer *= x.shape()[i];
    if (i > dim) result.inner *= x.shape()[i];
  }
  return result;
}

// Shorter pieces than this are not worth a call or a loop of their own.
inline constexpr int64_t kPiece = 16;

// The list of an index that selects whole slices of `whole`, of which `part`, contiguous and of the
// index's shape, has long enough pieces; undefined if elements are to be taken one by one.
[[gnu::noinline]] inline Array slices_of(const Array& index, int dim, const Array& whole,
                                         const Array& part) {
  if (index.ndim() == 0 || index.ndim() != whole.ndim() || whole.dtype() != part.dtype()) return {};
  for (int i = 0; i < index.ndim(); ++i) {
    if (i != dim && index.shape()[i] != whole.shape()[i]) return {};
  }
  const Slabs parts = slabs(part, dim);
  if (!parts.dense || parts.inner < kPiece || !whole.is_contiguous()) return {};
  const Array list = list_of(index, dim);
  return list.defined() && list.is_contiguous() ? list : Array();
}

}  // namespace hero::core::cpu
