// Integrals by the trapezoidal rule.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

// Twice the areas below the lines from each point to the next: y [.., N, ..] gives [.., N - 1, ..].
Tensor areas(const char* op, const Tensor& y, int axis) {
  check(y.dtype() != kBool, op, ": y is bool; convert to a number's dtype first");
  return slice(y, axis, 1) + slice(y, axis, 0, -1);
}

// The distances of the points x, beside y's dimensions.
Tensor steps(const char* op, const Tensor& x, const Tensor& y, int axis) {
  if (x.ndim() == 1) {
    check(x.size(0) == y.size(axis), op, ": there are ", x.size(0), " points x for ", y.size(axis),
          " points y in dim ", axis, " of ", y.shape());
    Shape shape;
    for (int i = 0; i < y.ndim(); ++i) shape.push_back(i == axis ? x.size(0) - 1 : 1);
    return reshape(diff(x), shape);
  }
  const int from_end = axis - y.ndim();
  check(-from_end <= x.ndim(), op, ": x ", x.shape(), " has no dim ", axis, " of y ", y.shape());
  check(x.size(from_end) == y.size(axis), op, ": there are ", x.size(from_end), " points x for ",
        y.size(axis), " points y in dim ", axis, " of ", y.shape());
  return diff(x, 1, from_end);
}

int line_axis(const char* op, const Tensor& y, int64_t dim) {
  check(y.ndim() > 0, op, ": a single number is no line");
  return normalize_dim(op, dim, y.ndim());
}

}  // namespace

Tensor trapezoid(const Tensor& y, double dx, int64_t dim) {
  const detail::Named named("trapezoid", {"y", y});
  detail::check_defined("trapezoid", {{"y", y}});
  const int axis = line_axis("trapezoid", y, dim);
  if (detail::any_half(y)) {
    return detail::in_float32("trapezoid", AutocastRule::fallthrough, {y},
                              [=](const auto& in) { return trapezoid(in[0], dx, dim); });
  }
  if (y.size(axis) == 0) return sum(y, {axis}).to(y.dtype());
  return sum(areas("trapezoid", y, axis), {axis}) * (dx / 2.0);
}

Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  const detail::Named named("trapezoid", {"y", y}, {"x", x});
  detail::check_defined("trapezoid", {{"y", y}, {"x", x}});
  const int axis = line_axis("trapezoid", y, dim);
  if (detail::any_half(y, x)) {
    return detail::in_float32("trapezoid", AutocastRule::fallthrough, {y, x},
                              [=](const auto& in) { return trapezoid(in[0], in[1], dim); });
  }
  if (y.size(axis) == 0) return trapezoid(y, 1.0, dim);
  const Tensor parts = areas("trapezoid", y, axis) * steps("trapezoid", x, y, axis);
  return sum(parts, {axis - y.ndim()}) / 2.0;
}

Tensor cumulative_trapezoid(const Tensor& y, double dx, int64_t dim) {
  const detail::Named named("cumulative_trapezoid", {"y", y});
  detail::check_defined("cumulative_trapezoid", {{"y", y}});
  const int axis = line_axis("cumulative_trapezoid", y, dim);
  if (detail::any_half(y)) {
    return detail::in_float32("cumulative_trapezoid", AutocastRule::fallthrough, {y},
                              [=](const auto& in) { return cumulative_trapezoid(in[0], dx, dim); });
  }
  return cumsum(areas("cumulative_trapezoid", y, axis), axis) * (dx / 2.0);
}

Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  const detail::Named named("cumulative_trapezoid", {"y", y}, {"x", x});
  detail::check_defined("cumulative_trapezoid", {{"y", y}, {"x", x}});
  const int axis = line_axis("cumulative_trapezoid", y, dim);
  if (detail::any_half(y, x)) {
    return detail::in_float32(
        "cumulative_trapezoid", AutocastRule::fallthrough, {y, x},
        [=](const auto& in) { return cumulative_trapezoid(in[0], in[1], dim); });
  }
  const Tensor parts =
      areas("cumulative_trapezoid", y, axis) * steps("cumulative_trapezoid", x, y, axis);
  return cumsum(parts, axis - y.ndim()) / 2.0;
}

}  // namespace hero
