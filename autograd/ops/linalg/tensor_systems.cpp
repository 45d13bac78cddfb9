// Norms of vectors, and systems of tensors that are matrices once their dimensions are joined.
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

// The sizes of dims [first, last).
Shape part(const Shape& shape, int64_t first, int64_t last) {
  Shape sizes;
  for (int64_t i = first; i < last; ++i) sizes.push_back(shape[static_cast<int>(i)]);
  return sizes;
}

}  // namespace

Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  const detail::Named named("vector_norm", {"x", x});
  detail::check_defined("vector_norm", {{"x", x}});
  return norm(x, p, dims, keepdim);
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  const detail::Named named("tensorinv", {"a", a});
  detail::check_defined("tensorinv", {{"a", a}});
  check(ind > 0 && ind <= a.ndim(), "tensorinv: ind must lie in [1, ", a.ndim(), "]: got ", ind);
  const Shape first = part(a.shape(), 0, ind), rest = part(a.shape(), ind, a.ndim());
  check(first.numel() == rest.numel(), "tensorinv: ", first, " and ", rest,
        " differ in their number of elements");
  Shape shape = rest;
  for (int i = 0; i < first.size(); ++i) shape.push_back(first[i]);
  return reshape(inv(reshape(a, {first.numel(), rest.numel()})), shape);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims) {
  const detail::Named named("tensorsolve", {"a", a}, {"b", b});
  detail::check_defined("tensorsolve", {{"a", a}, {"b", b}});
  Dims last;
  for (int64_t i = 0; i < dims.size(); ++i) last.push_back(i - dims.size());
  const Tensor moved = dims.empty() ? a : movedim(a, dims, last);
  check(moved.ndim() >= b.ndim() && part(moved.shape(), 0, b.ndim()).numel() == b.numel(),
        "tensorsolve: a ", moved.shape(), " must begin with the sizes of b ", b.shape());
  const Shape unknown = part(moved.shape(), b.ndim(), moved.ndim());
  check(unknown.numel() == b.numel(), "tensorsolve: there are ", unknown.numel(), " unknowns for ",
        b.numel(), " equations");
  const Tensor solved =
      solve(reshape(moved, {b.numel(), unknown.numel()}), reshape(b, {b.numel(), 1}));
  return reshape(solved, unknown);
}

}  // namespace hero
