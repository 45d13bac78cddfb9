// Sums and means, and sum_to(), the transpose of broadcasting.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

core::KeepDims sum_keeps(bool keepdim) {
  return keepdim ? core::KeepDims::yes : core::KeepDims::no;
}

struct Sum : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  Dims dims;
  bool keepdim;
  Sum(const Dims& d, bool k) : dims(d), keepdim(k) {}
  const char* name() const override { return "sum"; }
  Array forward(const Array& x) {
    return core::reduce(core::ReduceKind::sum, x, dims, sum_keeps(keepdim));
  }
  Grads backward(const Tensor& g) override {
    return {expand(reshape(g, detail::kept_shape(input_shape(0), dims)), input_shape(0))};
  }
};

// The sum over the elements' number. Of halves the sum is float32: it may leave their range though
// the mean does not.
struct Mean : Sum {
  using Sum::Sum;
  const char* name() const override { return "mean"; }
  static double share(const Shape& whole, const Shape& kept) {
    return 1.0 / (static_cast<double>(whole.numel()) / static_cast<double>(kept.numel()));
  }
  Array forward(const Array& x) {
    const Shape kept = detail::kept_shape(x.shape(), dims);
    const Array total = Array::empty(kept, detail::statistics_dtype(x.dtype()), x.device());
    core::backend(x.device()).run(core::call::Reduce{core::ReduceKind::sum, x, nullptr, total});
    const Array mean =
        total.dtype() == x.dtype() ? total : Array::empty(kept, x.dtype(), x.device());
    core::map_into<core::kernels::Mul>(mean, total, Scalar(share(x.shape(), kept)));
    return keepdim ? mean : mean.reshape(detail::dropped_shape(x.shape(), dims));
  }
  Grads backward(const Tensor& g) override {
    return Sum::backward(g * share(input_shape(0), detail::kept_shape(input_shape(0), dims)));
  }
};
// The sums of a b over the last dimensions: no array of the products is made.
struct SumOfProducts : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  int count;
  explicit SumOfProducts(int c) : count(c) {}
  const char* name() const override { return "sum_of_products"; }
  Array forward(const Array& a, const Array& b) {
    core::FusedExpression f(name());
    return f.sum(f(a) * f(b), count);
  }
  Grads backward(const Tensor& g) override {
    Shape shape = g.shape();
    for (int i = 0; i < count; ++i) shape.push_back(1);
    FusedExpression f;
    const Term dy = f(reshape(g, shape));
    const Term to_a = dy * f(input(1)), to_b = dy * f(input(0));
    return f.run({{needs(0), to_a}, {needs(1), to_b}});
  }
};

// bool, and uint8 of uint8.
Tensor logical(core::ReduceKind op, const Tensor& x, const Dims& dims, bool keepdim) {
  const Array result = core::reduce(op, x.array(), dims, sum_keeps(keepdim));
  return Tensor(x.dtype() == kUInt8 ? result.to(kUInt8) : result);
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("sum", {"x", x});
  detail::check_defined("sum", {{"x", x}});
  return record(Sum(normalize_dims("sum", dims, x.ndim()), keepdim), x);
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("mean", {"x", x});
  detail::check_defined("mean", {{"x", x}});
  check(is_floating(x.dtype()), "mean: array is ", x.dtype(),
        "; convert to a floating dtype first");
  return record(Mean(normalize_dims("mean", dims, x.ndim()), keepdim), x);
}

Tensor detail::sum_of_products(const Tensor& a, const Tensor& b, int dims) {
  return record(SumOfProducts(dims), a, b);
}

Tensor any(const Tensor& x, const Dims& dims, bool keepdim) {
  detail::check_defined("any", {{"x", x}});
  return logical(core::ReduceKind::any, x, dims, keepdim);
}

Tensor all(const Tensor& x, const Dims& dims, bool keepdim) {
  detail::check_defined("all", {{"x", x}});
  return logical(core::ReduceKind::all, x, dims, keepdim);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  detail::check_defined("sum_to", {{"x", x}});
  const int lead = x.ndim() - shape.size();
  check(lead >= 0, "sum_to: ", x.shape(), " does not broadcast from ", shape);
  Dims dims;
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t size = x.shape()[i];
    check(i < lead || shape[i - lead] == 1 || shape[i - lead] == size, "sum_to: ", x.shape(),
          " does not broadcast from ", shape);
    if (i < lead || (shape[i - lead] == 1 && size != 1)) dims.push_back(i);
  }
  // To a number it is a sum even of one, which widens integers.
  const bool sums = !dims.empty() || (shape.empty() && !is_floating(x.dtype()));
  const Tensor total = sums ? sum(x, dims, true) : x;
  return total.shape() == shape ? total : reshape(total, shape);
}

}  // namespace hero
