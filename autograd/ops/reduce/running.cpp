// Running maxima and differences.
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/place.h>
#include <hero/autograd/reduce_ops.h>
#include <hero/autograd/shape_ops.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/planned_device.h>

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

ValuesIndices running(const char* name, core::ArgOp op, const Tensor& x, int64_t dim) {
  const int axis = normalize_dim(name, dim, x.ndim());
  const Tensor line = atleast_1d(x);
  const Tensor places = core::kernels_of(x.device()) == DeviceType::cuda
                            ? in_rounds(op, line, axis)
                            : Tensor(core::running_positions(op, line.array(), axis));
  return {reshape(gather(line, axis, places), x.shape()), reshape(places, x.shape())};
}

}  // namespace

ValuesIndices cummax(const Tensor& x, int64_t dim) {
  detail::check_defined("cummax", {{"x", x}});
  return running("cummax", core::ArgOp::max, x, dim);
}
ValuesIndices cummin(const Tensor& x, int64_t dim) {
  detail::check_defined("cummin", {{"x", x}});
  return running("cummin", core::ArgOp::min, x, dim);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  detail::check_defined("diff", {{"x", x}});
  check(x.ndim() > 0, "diff: a single number has no neighbours");
  check(n >= 0, "diff: negative number of times ", n);
  const int axis = normalize_dim("diff", dim, x.ndim());
  if (n > 1 && detail::any_half(x)) {
    return detail::in_float32("diff", {x}, [=](const auto& in) { return diff(in[0], n, dim); });
  }
  Tensor result = x;
  for (int64_t i = 0; i < n && result.size(axis) > 0; ++i) {
    const Tensor after = slice(result, axis, 1), before = slice(result, axis, 0, -1);
    result = x.dtype() == kBool ? logical_xor(after, before) : after - before;
  }
  return result;
}

}  // namespace hero
