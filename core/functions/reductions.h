#pragma once
// Reductions, running sums and sorting of arrays.
#include <hero/core/device/backend.h>

namespace hero::core {

/// Whether a reduced dimension stays with size 1 or is dropped.
enum class KeepDims : uint8_t { no, yes };

/// Reduces x over `dims` (empty: over all). Sums and products of integers and bool are int64; any
/// and all give bool; max and min keep the dtype and refuse an empty dimension; the other sums
/// are of x's dtype, float32 for integers. `center`, for sum_deviation and sum_exp, has the shape
/// that the result has with KeepDims::yes.
Array reduce(ReduceKind op, const Array& x, const Dims& dims = {}, KeepDims keep = KeepDims::no,
             const Array* center = nullptr);

struct ArgResult {
  Array values;
  Array indices;  ///< int64
};

/// The largest or smallest elements along `dim` and the positions of their first occurrence; NaN
/// counts as largest and as smallest.
ArgResult arg_reduce(ArgOp op, const Array& x, int64_t dim, KeepDims keep = KeepDims::no);

/// Running sum or product along `dim`, int64 for integers and bool. Floats accumulate in double.
Array cumulative(ScanOp op, Direction direction, const Array& x, int64_t dim);

/// The largest or smallest element up to each one along `dim`, and its position: of equal elements
/// the last one. NaN wins over all numbers. Only for arrays on the cpu or meta.
ArgResult running_extremes(ArgOp op, const Array& x, int64_t dim);

enum class Order : uint8_t { ascending, descending };

struct SortResult {
  Array values;
  Array indices;  ///< int64 positions in the input
};

/// Stable sort along `dim`; NaN counts as largest.
SortResult sort(const Array& x, int64_t dim = -1, Order order = Order::ascending);

/// The positions (int64) of element k of `dim` as sort() orders it; `dim` stays, with size 1. The
/// CPU finds it without sorting.
Array kth_positions(const Array& x, int64_t k, int64_t dim = -1);

/// The first k elements of the sorted `dim`: the k largest for Order::descending.
SortResult topk(const Array& x, int64_t k, int64_t dim = -1, Order order = Order::descending);

/// Softmax or log-softmax along `dim`; integers give float32.
Array softmax(SoftmaxKind kind, const Array& x, int64_t dim);

/// Gradient with respect to softmax's input from the gradient g and the output y.
Array softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int64_t dim);

}  // namespace hero::core
