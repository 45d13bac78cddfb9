#pragma once
// Reading and writing arrays through arrays of positions. Indices are int64 or int32; every value
// is checked to lie in [0, size).
#include <hero/core/device/backend.h>

namespace hero::core {

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0, likewise for others. index has x's number of
/// dimensions, and is not larger than x in any dimension but `dim`; the result has the shape of
/// index.
Array gather(const Array& x, int64_t dim, const Array& index);

/// A copy of x with out[index[i][j][k]][j][k] = src[i][j][k] for dim 0 (or += for
/// ScatterMode::add), in index order: later elements win. src is at least as large as index.
Array scatter(ScatterMode mode, const Array& x, int64_t dim, const Array& index, const Array& src);

/// The same, written into `out`.
void scatter_into(ScatterMode mode, const Array& out, int64_t dim, const Array& index,
                  const Array& src);

/// out[.., i, ..] = x[.., index[i], ..] along `dim`; index has one dimension or none.
Array index_select(const Array& x, int64_t dim, const Array& index);

/// A copy of x with alpha * src[.., i, ..] added at [.., index[i], ..], in index order.
Array index_add(const Array& x, int64_t dim, const Array& index, const Array& src,
                Scalar alpha = 1);

/// The same, added into `out`.
void index_add_into(const Array& out, int64_t dim, const Array& index, const Array& src,
                    Scalar alpha = 1);

/// Positions of the non-zero elements as rows of an int64 array [count, ndim], in row-major order.
Array nonzero(const Array& x);

/// The indices as int64 on the same device; throws unless they are integers in [0, size), as
/// call::CheckedIndex says: on a GPU perhaps later.
Array checked_index(const char* op, const Array& index, int64_t size);

/// The error of checked_index: `value` stands at row-major position `at` of an index.
[[noreturn]] void fail_index(const char* op, int64_t value, int64_t at, const Shape& shape,
                             int64_t size);

}  // namespace hero::core
