// Reductions to the largest, the smallest, the product.
#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/functions/scaled_products.h>

namespace hero {

namespace detail {

Shape kept_shape(const Shape& shape, const Dims& dims) {
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

}  // namespace detail

namespace {

using core::KeepDims;
using core::ReduceKind;

KeepDims keep(bool keepdim) { return keepdim ? KeepDims::yes : KeepDims::no; }

// amax and amin: elements equal to the result share its gradient, and NaN, which is equal to
// nothing, makes it NaN. In max and min of all elements those that are NaN share it. Both are
// PyTorch's.
struct Extreme : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  ReduceKind op;
  Dims dims;
  bool keepdim, nan_shares = false;
  Extreme(ReduceKind o, const Dims& d, bool k) : op(o), dims(d), keepdim(k) {}
  const char* name() const override { return op == ReduceKind::max ? "amax" : "amin"; }
  Array forward(const Array& x) { return core::reduce(op, x, dims, keep(keepdim)); }
  Grads backward(const Tensor& g) override {
    const Shape kept = detail::kept_shape(input_shape(0), dims);
    Tensor hits = input(0) == reshape(output(), kept);
    // The result is NaN as soon as one element is.
    if (nan_shares) hits = logical_or(hits, isnan(input(0)));
    const Tensor hit = hits.to(g.dtype());
    return {hit * (reshape(g, kept) / sum(hit, dims, true))};
  }
};

Tensor extreme(ReduceKind op, const Tensor& x, const Dims& dims, bool keepdim) {
  const char* name = op == ReduceKind::max ? "amax" : "amin";
  return record(Extreme(op, normalize_dims(name, dims, x.ndim()), keepdim), x);
}

Tensor extreme_of_all(ReduceKind op, const Tensor& x) {
  Extreme whole(op, normalize_dims(op == ReduceKind::max ? "max" : "min", {}, x.ndim()), false);
  whole.nan_shares = true;
  return record(std::move(whole), x);
}

// max and min along a dimension: the whole gradient goes to the position that is returned.
struct ExtremeDim : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveOutputs = 0b10;
  core::ArgOp op;
  int dim;
  bool keepdim;
  ExtremeDim(core::ArgOp o, int d, bool k) : op(o), dim(d), keepdim(k) {}
  const char* name() const override { return op == core::ArgOp::max ? "max" : "min"; }
  std::vector<Array> forward(const Array& x) {
    core::ArgResult result = core::arg_reduce(op, x, dim, keep(keepdim));
    return {result.values, result.indices};
  }
  Grads backward(const Grads& grads) override {
    const bool dropped = !keepdim && input_shape(0).size() > 0;
    const Tensor index = output(1).detach();
    return {detail::scatter_zeros(dropped ? unsqueeze(grads[0], dim) : grads[0], input_shape(0),
                                  dim, dropped ? unsqueeze(index, dim) : index)};
  }
};

ValuesIndices extreme_dim(core::ArgOp op, const Tensor& x, int64_t dim, bool keepdim) {
  const int axis = normalize_dim(op == core::ArgOp::max ? "max" : "min", dim, x.ndim());
  const std::vector<Tensor> results = record_multi(ExtremeDim(op, axis, keepdim), x);
  return {results[0], results[1]};
}

Tensor position(core::ArgOp op, const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  if (dim) return Tensor(core::arg_reduce(op, x.array(), *dim, keep(keepdim)).indices);
  const Array index = core::arg_reduce(op, x.array().reshape({-1}), 0).indices;
  return Tensor(keepdim ? index.reshape(Dims::filled(x.ndim(), 1)) : index);
}

// x with `dims` moved to the end and made one dimension.
Tensor gathered(const Tensor& x, const Dims& dims) {
  Dims order;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!dims.contains(i)) order.push_back(i);
  }
  Shape shape;
  int64_t count = 1;
  for (int64_t dim : order) shape.push_back(x.size(dim));
  for (int64_t dim : dims) {
    order.push_back(dim);
    count *= x.size(dim);
  }
  shape.push_back(count);
  return reshape(permute(x, order), shape);
}

// Where a product of all factors but one along the last dimension is NaN though it is 0: one of
// them is 0 and all are finite, but products on the way left the range, and inf times 0 is no 0.
Tensor lost_zeros(const Tensor& others, const Tensor& factors) {
  const NoGrad no_grad;
  const Tensor zero = (factors == 0.0).to(kInt64);
  const Tensor has_zero = sum(zero, {-1}, true) - zero > 0;
  return logical_and(logical_and(isnan(others), has_zero), all(isfinite(factors), {-1}, true));
}

// Whether products of x are looked at on the host, which may compute them anew.
bool is_looked_at(const Array& x) {
  return core::is_host_memory(x.device()) && (x.dtype() == kFloat32 || x.dtype() == kFloat64);
}

// The product over dimensions. Where a product of some factors may leave the range of the dtype,
// the result is that of exponents apart from mantissas. The host looks at factors that do not lie
// side by side in copies of some results' at a time.
Array product(const Array& x, const Dims& given, KeepDims keep_dims) {
  const Array y = core::reduce(ReduceKind::prod, x, given, keep_dims);
  if (!is_looked_at(x) || x.numel() == 0) return y;
  const NoGrad no_grad;
  const Dims dims = normalize_dims("prod", given, x.ndim());
  const Array results = y.reshape({-1});
  int kept = 0;  // the first dimension that is left
  while (kept < x.ndim() && dims.contains(kept)) ++kept;
  if (kept == x.ndim()) {
    core::correct_products(gathered(Tensor(x), dims).array().contiguous(), results);
    return y;
  }
  constexpr int64_t kElements = 1 << 20;
  const int64_t size = x.size(kept), each = results.numel() / size;
  const int64_t step = std::max<int64_t>(1, kElements / (x.numel() / size));
  for (int64_t at = 0; at < size; at += step) {
    const int64_t end = std::min(at + step, size);
    core::correct_products(gathered(Tensor(x.slice(kept, at, end)), dims).array().contiguous(),
                           results.slice(0, at * each, end * each));
  }
  return y;
}

// The product along the last dimension. The derivative by one factor is the product of the others,
// from running products of both sides: no division, so zeros are no exception.
struct Prod : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "prod"; }
  Array forward(const Array& x) { return product(x, {-1}, KeepDims::no); }
  Grads backward(const Tensor& g) override {
    // float64 holds products of float32 that float32 does not, also where they are recorded.
    if (input(0).dtype() == kFloat32) {
      return {slopes(input(0).to(kFloat64), g.to(kFloat64)).to(kFloat32)};
    }
    return {slopes(input(0), g)};
  }
  static Tensor slopes(const Tensor& x, const Tensor& g) {
    if (x.numel() == 0) return zeros_like(x);
    if (!grad_enabled()) return Tensor(without_graph(x.array(), g.array()));
    // Before element i, and after it: everything moves by one and 1 moves in.
    const Tensor before = cumprod(pad(x, {1, -1}, PadMode::constant, 1.0), -1);
    const Tensor after =
        flip(cumprod(flip(pad(x, {-1, 1}, PadMode::constant, 1.0), {-1}), -1), {-1});
    const Tensor lost = lost_zeros(before * after, x);
    return unsqueeze(g, -1) * (where(lost, 0, before) * where(lost, 0, after));
  }
  // The same numbers. Both products go through the same memory, one place ahead of each element.
  static Array without_graph(const Array& x, const Array& g) {
    const int last = x.ndim() - 1;
    const int64_t n = x.shape()[last];
    core::Backend& device = core::backend(x.device());
    const Array before = x.empty_like(), after = x.empty_like();
    const auto fill = [&](const Array& to, core::Direction direction, int64_t from, int64_t at) {
      device.run(core::call::Fill{to.slice(last, at, at + 1), 1});
      const Array others = x.slice(last, from, from + n - 1);
      device.run(core::call::Scan{core::ScanOp::prod, direction, others, last,
                                  to.slice(last, 1 - from, n - from)});
    };
    fill(before, core::Direction::forward, 0, 0);
    fill(after, core::Direction::backward, 1, n - 1);
    core::map_into<core::kernels::Mul>(after, before, after);
    const Tensor lost = lost_zeros(Tensor(after), Tensor(x));
    core::map_into<core::kernels::Where>(after, lost.array(), Scalar(0.0), after);
    core::map_into<core::kernels::Mul>(after, g.unsqueeze(-1), after);
    if (is_looked_at(x)) core::correct_slopes(x.contiguous(), g.contiguous(), after);
    return after;
  }
};

}  // namespace

Tensor prod(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("prod", {"x", x});
  detail::check_defined("prod", {{"x", x}});
  const Dims axes = normalize_dims("prod", dims, x.ndim());
  if (!x.requires_grad() || !grad_enabled()) {
    return Tensor(product(x.array(), axes, keep(keepdim)));
  }
  if (detail::any_half(x)) {
    return detail::in_float32("prod", AutocastRule::float32, {x},
                              [=](const auto& in) { return prod(in[0], dims, keepdim); });
  }
  const Tensor product = record(Prod{}, gathered(x, axes));
  return keepdim ? reshape(product, detail::kept_shape(x.shape(), axes)) : product;
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("amax", {"x", x});
  detail::check_defined("amax", {{"x", x}});
  return extreme(ReduceKind::max, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("amin", {"x", x});
  detail::check_defined("amin", {{"x", x}});
  return extreme(ReduceKind::min, x, dims, keepdim);
}
Tensor max(const Tensor& x) {
  const detail::Named named("max", {"x", x});
  detail::check_defined("max", {{"x", x}});
  return extreme_of_all(ReduceKind::max, x);
}
Tensor min(const Tensor& x) {
  const detail::Named named("min", {"x", x});
  detail::check_defined("min", {{"x", x}});
  return extreme_of_all(ReduceKind::min, x);
}
ValuesIndices max(const Tensor& x, int64_t dim, bool keepdim) {
  const detail::Named named("max", {"x", x});
  detail::check_defined("max", {{"x", x}});
  return extreme_dim(core::ArgOp::max, x, dim, keepdim);
}
ValuesIndices min(const Tensor& x, int64_t dim, bool keepdim) {
  const detail::Named named("min", {"x", x});
  detail::check_defined("min", {{"x", x}});
  return extreme_dim(core::ArgOp::min, x, dim, keepdim);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  detail::check_defined("argmax", {{"x", x}});
  return position(core::ArgOp::max, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  detail::check_defined("argmin", {{"x", x}});
  return position(core::ArgOp::min, x, dim, keepdim);
}

}  // namespace hero
