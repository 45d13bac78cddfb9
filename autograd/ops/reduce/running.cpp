// Running maxima and differences.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/own_memory.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

// Where the best elements so far are. On a GPU each round lets every element see twice as far back,
// so they are log2(n) rounds of whole-array operations.
Tensor in_rounds(core::ArgOp op, const Tensor& x, int axis) {
  Shape along = Shape::filled(x.ndim(), 1);
  along[axis] = x.size(axis);
  const NoGrad no_grad;
  Tensor values = x.detach();
  Tensor places =
      expand(Tensor(detail::positions(along[axis], x.device()).reshape(along)), x.shape());
  for (int64_t reach = 1; reach < along[axis]; reach *= 2) {
    const Tensor own = slice(values, axis, reach), before = slice(values, axis, 0, -reach);
    const Tensor better = op == core::ArgOp::max ? before > own : before < own;
    const Tensor takes = logical_or(better, logical_and(isnan(before), own == own));
    values = cat({slice(values, axis, 0, reach), where(takes, before, own)}, axis);
    places = cat({slice(places, axis, 0, reach),
                  where(takes, slice(places, axis, 0, -reach), slice(places, axis, reach))},
                 axis);
  }
  return contiguous(places);
}

// Each gradient goes back to where its value came from.
struct RunningExtreme : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveOutputs = 0b10;
  core::ArgOp op;
  int dim;
  RunningExtreme(core::ArgOp o, int d) : op(o), dim(d) {}
  const char* name() const override { return op == core::ArgOp::max ? "cummax" : "cummin"; }
  std::vector<Array> forward(const Array& x) {
    const core::ArgResult found = core::running_extremes(op, x, dim);
    return {found.values, found.indices};
  }
  Grads backward(const Grads& grads) override {
    return {detail::scatter_zeros(grads[0], input_shape(0), dim, output(1).detach())};
  }
};

ValuesIndices running(core::ArgOp op, const Tensor& x, int64_t dim) {
  const int axis = normalize_dim(op == core::ArgOp::max ? "cummax" : "cummin", dim, x.ndim());
  const Tensor line = atleast_1d(x);
  ValuesIndices found;
  if (!core::kernel_traits(x.device()).has_host_calls) {
    found.indices = in_rounds(op, line, axis);
    found.values = gather(line, axis, found.indices);
  } else {
    const std::vector<Tensor> results = record_multi(RunningExtreme(op, axis), line);
    found = {results[0], results[1]};
  }
  return {reshape(found.values, x.shape()), reshape(found.indices, x.shape())};
}

}  // namespace

ValuesIndices cummax(const Tensor& x, int64_t dim) {
  detail::check_defined("cummax", {{"x", x}});
  return running(core::ArgOp::max, x, dim);
}
ValuesIndices cummin(const Tensor& x, int64_t dim) {
  detail::check_defined("cummin", {{"x", x}});
  return running(core::ArgOp::min, x, dim);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  detail::check_defined("diff", {{"x", x}});
  const detail::Named named("diff", {"x", x});
  if (n == 0) return diff(x, n, dim);
  std::vector<Tensor> parts{x};
  if (prepend.defined()) parts.insert(parts.begin(), prepend);
  if (append.defined()) parts.push_back(append);
  return diff(cat(parts, dim), n, dim);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  detail::check_defined("diff", {{"x", x}});
  check(x.ndim() > 0, "diff: a single number has no neighbours");
  check(n >= 0, "diff: negative number of times ", n);
  const int axis = normalize_dim("diff", dim, x.ndim());
  if (n > 1 && detail::any_half(x)) {
    return detail::in_float32("diff", AutocastRule::fallthrough, {x},
                              [=](const auto& in) { return diff(in[0], n, dim); });
  }
  Tensor result = x;
  for (int64_t i = 0; i < n && result.size(axis) > 0; ++i) {
    const Tensor after = slice(result, axis, 1), before = slice(result, axis, 0, -1);
    result = x.dtype() == kBool ? logical_xor(after, before) : after - before;
  }
  return detail::own_memory(result, x);
}

}  // namespace hero
