#include <hero/core/functions/indexing.h>

namespace hero::core {

namespace {

Dims position_of(int64_t at, const Shape& shape) {
  Dims position = Dims::filled(shape.size(), 0);
  for (int d = shape.size() - 1; d >= 0; --d) {
    position[d] = at % shape[d];
    at /= shape[d];
  }
  return position;
}

struct IndexedDim {
  int axis;
  int64_t size;  // of the indexed dimension, 1 for a number
};

IndexedDim indexed_dim(const char* op, const Array& x, int64_t dim) {
  check(x.defined(), op, ": the array is undefined");
  const int axis = normalize_dim(op, dim, x.ndim());
  return {axis, x.ndim() > 0 ? x.shape()[axis] : 1};
}

// `small` must fit into `large` in every dimension but `except`.
void check_fits(const char* op, const Array& index, const Array& large, int except,
                const char* what) {
  check(index.ndim() == large.ndim(), op, ": index of shape ", index.shape(),
        " has not as many dimensions as the ", what, " of shape ", large.shape(),
        "; unsqueeze() adds one, and index_select() takes a list");
  bool fits = true;
  for (int i = 0; fits && i < index.ndim(); ++i) {
    fits = i == except || index.shape()[i] <= large.shape()[i];
  }
  check(fits, op, ": index of shape ", index.shape(), " is larger than the ", what, " of shape ",
        large.shape());
}

// Writers must not read what they have overwritten.
Array apart_from(const Array& input, const Array& out) {
  return input.storage_ref() == out.storage_ref() ? input.clone() : input;
}

}  // namespace

void fail_index(const char* op, int64_t value, int64_t at, const Shape& shape, int64_t size) {
  fail(op, ": index ", value, " at position ", position_of(at, shape),
       " is out of range: the dimension has size ", size);
}

Array checked_index(const char* op, const Array& index, int64_t size) {
  check(index.defined(), op, ": the index is undefined");
  check(index.dtype() == kInt64 || index.dtype() == kInt32, op,
        ": index must be int64 or int32: got ", index.dtype());
  // No value needs to be read to know that there is nothing to point at.
  check(size > 0 || index.numel() == 0, op, ": index of shape ", index.shape(),
        " points into a dimension of size 0");
  return backend(index.device()).run(call::CheckedIndex{op, index, size});
}

Array gather(const Array& x, int64_t dim, const Array& index) {
  const IndexedDim place = indexed_dim("gather", x, dim);
  check_same_device("gather", x, index);
  check_fits("gather", index, x, place.axis, "array");
  const Array positions = checked_index("gather", index, place.size);
  Array out = Array::empty(index.shape(), x.dtype(), x.device());
  backend(x.device()).run(call::Gather{x, place.axis, positions, out});
  return out;
}

void scatter_into(ScatterMode mode, const Array& out, int64_t dim, const Array& index,
                  const Array& src) {
  const IndexedDim place = indexed_dim("scatter", out, dim);
  check_same_device("scatter", out, index);
  check_same_device("scatter", out, src);
  check_fits("scatter", index, out, place.axis, "array");
  check_fits("scatter", index, src, -1, "source");
  check(src.dtype() == out.dtype(), "scatter: source is ", src.dtype(), ", array is ", out.dtype(),
        "; convert with to()");
  const Array positions = checked_index("scatter", index, place.size);
  backend(out.device())
      .run(call::Scatter{mode, apart_from(src, out), place.axis, apart_from(positions, out), out});
  out.storage().bump_version();
}

Array scatter(ScatterMode mode, const Array& x, int64_t dim, const Array& index, const Array& src) {
  check(x.defined(), "scatter: the array is undefined");
  Array out = x.clone();
  scatter_into(mode, out, dim, index, src);
  return out;
}

Array index_select(const Array& x, int64_t dim, const Array& index) {
  const IndexedDim place = indexed_dim("index_select", x, dim);
  check_same_device("index_select", x, index);
  check(index.ndim() <= 1, "index_select: index must be a list of positions: has shape ",
        index.shape());
  const Array positions = checked_index("index_select", index, place.size);
  Shape shape = x.shape();
  if (x.ndim() > 0) shape[place.axis] = index.numel();
  check(x.ndim() > 0 || index.numel() == 1,
        "index_select: a 0-dimensional array has one element: index has ", index.numel());
  Array out = Array::empty(shape, x.dtype(), x.device());
  backend(x.device()).run(call::IndexSelect{x, place.axis, positions, out});
  return out;
}

void index_add_into(const Array& out, int64_t dim, const Array& index, const Array& src,
                    Scalar alpha) {
  const IndexedDim place = indexed_dim("index_add", out, dim);
  check_same_device("index_add", out, index);
  check_same_device("index_add", out, src);
  check(index.ndim() <= 1, "index_add: index must be a list of positions: has shape ",
        index.shape());
  Shape expected = out.shape();
  if (out.ndim() > 0) expected[place.axis] = index.numel();
  check(src.shape() == expected && (out.ndim() > 0 || index.numel() == 1),
        "index_add: source of shape ", src.shape(), " does not match ", index.numel(),
        " positions along dim ", place.axis, " of ", out.shape());
  check(src.dtype() == out.dtype(), "index_add: source is ", src.dtype(), ", array is ",
        out.dtype(), "; convert with to()");
  const Array positions = checked_index("index_add", index, place.size);
  backend(out.device())
      .run(
          call::IndexAdd{apart_from(src, out), place.axis, apart_from(positions, out), alpha, out});
  out.storage().bump_version();
}

Array index_add(const Array& x, int64_t dim, const Array& index, const Array& src, Scalar alpha) {
  check(x.defined(), "index_add: the array is undefined");
  Array out = x.clone();
  index_add_into(out, dim, index, src, alpha);
  return out;
}

Array nonzero(const Array& x) {
  check(x.defined(), "nonzero: the array is undefined");
  return backend(x.device()).run(call::Nonzero{x});
}

}  // namespace hero::core
