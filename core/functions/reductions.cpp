#include <hero/core/device/planned_device.h>
#include <hero/core/functions/reductions.h>

namespace hero::core {

namespace {

const char* name(ReduceKind op) {
  constexpr const char* names[] = {"sum", "prod",    "max",        "min",           "any",
                                   "all", "sum_abs", "sum_square", "sum_deviation", "sum_exp"};
  return names[static_cast<int>(op)];
}

bool is_extreme(ReduceKind op) { return op == ReduceKind::max || op == ReduceKind::min; }

DType result_dtype(ReduceKind op, DType dtype) {
  if (op == ReduceKind::any || op == ReduceKind::all) return kBool;
  if (is_floating(dtype) || is_extreme(op)) return dtype;
  if (op == ReduceKind::sum || op == ReduceKind::prod || op == ReduceKind::sum_abs) return kInt64;
  return kFloat32;
}

Shape without(const Shape& shape, const Dims& dims) {
  Shape rest;
  for (int i = 0; i < shape.size(); ++i) {
    if (!dims.contains(i)) rest.push_back(shape[i]);
  }
  return rest;
}

// One dimension of x, checked; 0 for a number.
int axis_of(const char* op, const Array& x, int64_t dim) {
  check(x.defined(), op, ": the array is undefined");
  return normalize_dim(op, dim, x.ndim());
}

}  // namespace

Array reduce(ReduceKind op, const Array& x, const Dims& dims, KeepDims keep, const Array* center) {
  check(x.defined(), name(op), ": the array is undefined");
  const Dims axes = normalize_dims(name(op), dims, x.ndim());
  Shape shape = x.shape();
  for (int64_t axis : axes) {
    check(!is_extreme(op) || shape[static_cast<int>(axis)] > 0, name(op), ": dim ", axis,
          " of shape ", x.shape(), " is empty and has no ", name(op), "imum");
    shape[static_cast<int>(axis)] = 1;
  }
  const bool centered = op == ReduceKind::sum_deviation || op == ReduceKind::sum_exp;
  check(centered == (center != nullptr), name(op),
        centered ? ": needs a center" : ": takes no center");
  if (center) {
    check_same_device(name(op), x, *center);
    check(center->shape() == shape, name(op), ": center of shape ", center->shape(),
          " does not match the result ", shape);
  }
  Array out = Array::empty(shape, result_dtype(op, x.dtype()), x.device());
  backend(x.device()).run(call::Reduce{op, x, center, out});
  return keep == KeepDims::yes ? out : out.reshape(without(x.shape(), axes));
}

ArgResult arg_reduce(ArgOp op, const Array& x, int64_t dim, KeepDims keep) {
  const char* label = op == ArgOp::max ? "argmax" : "argmin";
  const int axis = axis_of(label, x, dim);
  Shape shape = x.shape();
  if (x.ndim() > 0) {
    check(shape[axis] > 0, label, ": dim ", axis, " of shape ", shape, " is empty");
    shape[axis] = 1;
  }
  const Array values = Array::empty(shape, x.dtype(), x.device());
  const Array indices = Array::empty(shape, kInt64, x.device());
  backend(x.device()).run(call::ArgReduce{op, x, axis, values, indices});
  if (keep == KeepDims::yes || x.ndim() == 0) return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

Array cumulative(ScanOp op, Direction direction, const Array& x, int64_t dim) {
  const int axis = axis_of(op == ScanOp::sum ? "cumsum" : "cumprod", x, dim);
  Array out = Array::empty(x.shape(), is_floating(x.dtype()) ? x.dtype() : kInt64, x.device());
  backend(x.device()).run(call::Scan{op, direction, x, axis, out});
  return out;
}

SortResult sort(const Array& x, int64_t dim, Order order) {
  const int axis = axis_of("sort", x, dim);
  SortResult result{x.empty_like(), Array::empty(x.shape(), kInt64, x.device())};
  backend(x.device())
      .run(call::Sort{x, axis, order == Order::descending, result.values, result.indices});
  return result;
}

Array kth_positions(const Array& x, int64_t k, int64_t dim) {
  const int axis = axis_of("kth_positions", x, dim);
  check(x.ndim() > 0 && k >= 0 && k < x.shape()[axis], "kth_positions: ", k,
        " is no position in dim ", axis, " of shape ", x.shape());
  if (kernels_of(x.device()) == DeviceType::cuda) {
    return sort(x, dim).indices.slice(axis, k, k + 1).clone();
  }
  Shape shape = x.shape();
  shape[axis] = 1;
  const Array positions = Array::empty(shape, kInt64, x.device());
  backend(x.device()).run(call::KthPositions{x, axis, k, positions});
  return positions;
}

ArgResult running_extremes(ArgOp op, const Array& x, int64_t dim) {
  const int axis = axis_of(op == ArgOp::max ? "cummax" : "cummin", x, dim);
  const ArgResult found{x.empty_like(), Array::empty(x.shape(), kInt64, x.device())};
  backend(x.device()).run(call::RunningExtremes{op, x, axis, found.values, found.indices});
  return found;
}

SortResult topk(const Array& x, int64_t k, int64_t dim, Order order) {
  const int axis = axis_of("topk", x, dim);
  const int64_t size = x.ndim() > 0 ? x.shape()[axis] : 1;
  check(k >= 0 && k <= size, "topk: k = ", k, " is not within 0 and the size ", size, " of dim ",
        axis, " of shape ", x.shape());
  if (x.device().type != DeviceType::cuda && x.ndim() > 0 && k > 0) {
    // sort() of the CPU, of which meta is a plan, finds only as many as its results hold.
    Shape shape = x.shape();
    shape[axis] = k;
    SortResult first{Array::empty(shape, x.dtype(), x.device()),
                     Array::empty(shape, kInt64, x.device())};
    backend(x.device())
        .run(call::Sort{x, axis, order == Order::descending, first.values, first.indices});
    return first;
  }
  const SortResult all = sort(x, dim, order);
  if (x.ndim() == 0) {
    return all;  // of k = 0, too, as in PyTorch
  }
  // Copies, so that the rest of the sorted array is freed.
  return {all.values.slice(axis, 0, k).clone(), all.indices.slice(axis, 0, k).clone()};
}

Array softmax(SoftmaxKind kind, const Array& x, int64_t dim) {
  const int axis = axis_of(kind == SoftmaxKind::softmax ? "softmax" : "log_softmax", x, dim);
  Array out = Array::empty(x.shape(), is_floating(x.dtype()) ? x.dtype() : kFloat32, x.device());
  backend(x.device()).run(call::Softmax{kind, x, axis, out});
  return out;
}

Array softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int64_t dim) {
  const int axis = axis_of("softmax_backward", y, dim);
  check_same_device("softmax_backward", g, y);
  check(g.shape() == y.shape(), "softmax_backward: gradient of shape ", g.shape(),
        " for an output of shape ", y.shape());
  Array out = y.empty_like();
  backend(y.device()).run(call::SoftmaxBack{kind, g, y, axis, out});
  return out;
}

}  // namespace hero::core
