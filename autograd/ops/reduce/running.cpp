// Running maxima and differences. Each round lets every element see twice as far back, so they are
// log2(n) rounds of whole-array operations.
#include <hero/autograd/ops/defined.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/place.h>
#include <hero/autograd/reduce_ops.h>

namespace hero {

namespace {

// x along dim with the elements that the running function takes, and where they are.
template <class Better>
ValuesIndices running(const char* op, const Tensor& x, int64_t dim, Better&& better) {
  const int axis = normalize_dim(op, dim, x.ndim());
  const Shape shape = x.ndim() == 0 ? Shape{1} : x.shape();
  const Tensor line = reshape(x, shape);
  Shape along = Shape::filled(shape.size(), 1);
  along[axis] = shape[axis];
  const NoGrad no_grad;
  Tensor values = line.detach();
  Tensor places = expand(Tensor(detail::positions(shape[axis], x.device()).reshape(along)), shape);
  for (int64_t reach = 1; reach < shape[axis]; reach *= 2) {
    const Tensor own = slice(values, axis, reach), before = slice(values, axis, 0, -reach);
    const Tensor takes = better(before, own);
    values = cat({slice(values, axis, 0, reach), where(takes, before, own)}, axis);
    places = cat({slice(places, axis, 0, reach),
                  where(takes, slice(places, axis, 0, -reach), slice(places, axis, reach))},
                 axis);
  }
  return {line, contiguous(places)};
}

ValuesIndices taken(const ValuesIndices& found, const Tensor& x, int64_t dim) {
  const int axis = x.ndim() == 0 ? 0 : normalize_dim("cummax", dim, x.ndim());
  return {reshape(gather(found.values, axis, found.indices), x.shape()),
          reshape(found.indices, x.shape())};
}

}  // namespace

ValuesIndices cummax(const Tensor& x, int64_t dim) {
  detail::check_defined("cummax", {{"x", x}});
  return taken(running("cummax", x, dim,
                       [](const Tensor& before, const Tensor& own) {
                         return logical_or(before > own, logical_and(isnan(before), own == own));
                       }),
               x, dim);
}
ValuesIndices cummin(const Tensor& x, int64_t dim) {
  detail::check_defined("cummin", {{"x", x}});
  return taken(running("cummin", x, dim,
                       [](const Tensor& before, const Tensor& own) {
                         return logical_or(before < own, logical_and(isnan(before), own == own));
                       }),
               x, dim);
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
