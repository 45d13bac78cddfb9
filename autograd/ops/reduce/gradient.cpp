// gradient(): derivatives of sampled functions by finite differences.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

constexpr auto kName = "gradient";

// Of points at equal distances.
Tensor by_distance(const Tensor& x, int axis, double distance, int64_t order) {
  const int64_t n = x.size(axis);
  const auto at = [&](int64_t i) { return slice(x, axis, i, i + 1); };
  const Tensor inside = (slice(x, axis, 2) - slice(x, axis, 0, n - 2)) / (2.0 * distance);
  if (order == 1) {
    return cat({(at(1) - at(0)) / distance, inside, (at(n - 1) - at(n - 2)) / distance}, axis);
  }
  return cat({(at(1) * 2.0 - at(0) * 1.5 - at(2) * 0.5) / distance, inside,
              (at(n - 1) * 1.5 - at(n - 2) * 2.0 + at(n - 3) * 0.5) / distance},
             axis);
}

// The slope at one of three neighbours of the parabola through them, whose distances are `left` and
// `right`: at the first, the middle or the last.
Tensor slope(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& left,
             const Tensor& right, int where) {
  const Tensor both = left + right, first = (b - a) / left, second = (c - b) / right;
  const Tensor bend = (second - first) / both;
  return where == 0 ? first - bend * left
                    : (where == 1 ? first + bend * left : second + bend * right);
}

// Of points at these places.
Tensor by_places(const Tensor& x, int axis, const Tensor& places, int64_t order) {
  const int64_t n = x.size(axis);
  Shape along = Shape::filled(x.ndim(), 1);
  along[axis] = n - 1;
  const Tensor step = reshape(slice(places, 0, 1) - slice(places, 0, 0, n - 1), along);
  const auto points = [&](int64_t from, int64_t to) { return slice(x, axis, from, to); };
  const auto steps = [&](int64_t from, int64_t to) { return slice(step, axis, from, to); };
  const auto end = [&](int64_t i, int where) {
    return slope(points(i, i + 1), points(i + 1, i + 2), points(i + 2, i + 3), steps(i, i + 1),
                 steps(i + 1, i + 2), where);
  };
  const auto line = [&](int64_t i) {
    return (points(i + 1, i + 2) - points(i, i + 1)) / steps(i, i + 1);
  };
  std::vector<Tensor> parts{order == 1 ? line(0) : end(0, 0)};
  if (n > 2) {
    parts.push_back(slope(points(0, n - 2), points(1, n - 1), points(2, n), steps(0, n - 2),
                          steps(1, n - 1), 1));
  }
  parts.push_back(order == 1 ? line(n - 2) : end(n - 3, 2));
  return cat(parts, axis);
}

void check_lists(const Tensor& x, size_t dims, const GradientOptions& options) {
  check(options.edge_order == 1 || options.edge_order == 2, kName, ": edge_order ",
        options.edge_order, " is neither 1 nor 2");
  const size_t places = options.coordinates.size(), distances = options.spacing.size();
  check(places == 0 || places == dims, kName, ": coordinates for ", places, " of ", dims,
        " dimensions");
  check(places > 0 || distances == 1 || distances == dims, kName, ": ", distances,
        " distances for ", dims, " dimensions of ", x.shape());
  detail::check_defined(kName, options.coordinates);
}

}  // namespace

std::vector<Tensor> gradient(const Tensor& x, const GradientOptions& options) {
  const detail::Named named(kName, {"x", x});
  detail::check_defined(kName, {{"x", x}});
  Dims dims = options.dim;
  for (int i = 0; options.dim.empty() && i < x.ndim(); ++i) dims.push_back(i);
  const auto count = static_cast<size_t>(dims.size());
  check_lists(x, count, options);
  const Tensor values = is_floating(x.dtype()) ? x : x.to(kFloat32);
  const int64_t order = options.edge_order;
  std::vector<Tensor> found;
  for (size_t i = 0; i < count; ++i) {
    const int axis = normalize_dim(kName, dims[static_cast<int>(i)], x.ndim());
    check(x.size(axis) > order, kName, ": dim ", axis, " of ", x.shape(), " has fewer than ",
          order + 1, " points, for edge_order ", order);
    const bool by_distances = options.coordinates.empty();
    const Tensor places = by_distances ? Tensor() : options.coordinates[i];
    check(by_distances || places.shape() == Shape{x.size(axis)}, kName, ": coordinates ",
          by_distances ? Shape() : places.shape(), " of the ", x.size(axis), " points in dim ",
          axis);
    const double distance =
        by_distances ? options.spacing[options.spacing.size() == 1 ? 0 : i] : 0.0;
    const auto along = [=](const std::vector<Tensor>& in) {
      return by_distances ? by_distance(in[0], axis, distance, order)
                          : by_places(in[0], axis, in[1], order);
    };
    const std::vector<Tensor> inputs{values, places};
    found.push_back(detail::is_half(values)
                        ? detail::in_float32(kName, AutocastRule::fallthrough, inputs, along)
                        : along(inputs));
  }
  return found;
}

}  // namespace hero
