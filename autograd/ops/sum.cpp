// Sums and means, and sum_to, which undoes broadcasting.
#include <hero/autograd/op.h>
#include <hero/autograd/ops.h>
#include <hero/core/backend.h>

namespace hero {

namespace {

// x's shape with size 1 in `dims`.
Shape reduced_shape(const Shape& shape, const Dims& dims) {
  Shape result = shape;
  for (int64_t dim : dims) result[static_cast<int>(dim)] = 1;
  return result;
}

Shape dropped_shape(const Shape& shape, const Dims& dims) {
  Shape result;
  for (int i = 0; i < shape.size(); ++i) {
    if (!dims.contains(i)) result.push_back(shape[i]);
  }
  return result;
}

Array reduced(core::ReduceOp op, const Array& x, const Dims& dims, bool keepdim, DType dtype) {
  Array out = Array::empty(reduced_shape(x.shape(), dims), dtype, x.device());
  core::backend(x.device()).reduce(op, x, nullptr, out);
  return keepdim ? out : out.reshape(dropped_shape(x.shape(), dims));
}

struct Sum : Op {
  Dims dims;
  bool keepdim;
  Sum(const Dims& d, bool k) : dims(d), keepdim(k) {}
  const char* name() const override { return "sum"; }
  Array forward(const Array& x) {
    // Integers are summed in 64 bits.
    const DType dtype = is_floating(x.dtype()) ? x.dtype() : kInt64;
    return reduced(core::ReduceOp::sum, x, dims, keepdim, dtype);
  }
  Grads backward(const Tensor& g) override {
    return {expand(reshape(g, reduced_shape(input_shape(0), dims)), input_shape(0))};
  }
};

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  return record(Sum(normalize_dims("sum", dims, x.ndim()), keepdim), x);
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  check(is_floating(x.dtype()), "mean: array is ", x.dtype(),
        "; convert to a floating dtype first");
  const Tensor total = sum(x, dims, keepdim);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(total.numel());
  return total * (1.0 / count);
}

Tensor any(const Tensor& x, const Dims& dims, bool keepdim) {
  const Dims all_dims = normalize_dims("any", dims, x.ndim());
  return Tensor(reduced(core::ReduceOp::any, x.array(), all_dims, keepdim, kBool));
}

Tensor all(const Tensor& x, const Dims& dims, bool keepdim) {
  const Dims all_dims = normalize_dims("all", dims, x.ndim());
  return Tensor(reduced(core::ReduceOp::all, x.array(), all_dims, keepdim, kBool));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  const int lead = x.ndim() - shape.size();
  check(lead >= 0, "sum_to: ", x.shape(), " does not broadcast from ", shape);
  Dims dims;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) dims.push_back(i);
  }
  const Tensor total = dims.empty() ? x : sum(x, dims, true);
  return total.shape() == shape ? total : reshape(total, shape);
}

}  // namespace hero
