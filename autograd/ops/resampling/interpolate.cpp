// Resampling along each dimension by a sparse matrix, one for each mode, whose transpose gives the
// derivative.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/pool/pool_windows.h>
#include <hero/autograd/ops/resampling/interpolate.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/memory/allocator.h>

namespace hero {

namespace {

// Row i has the weights [starts[i], starts[i + 1]) in columns of the same places.
struct Resampling {
  int64_t columns = 0;  ///< of the matrix: elements before
  std::vector<int64_t> starts = {0};
  std::vector<int64_t> places = {};
  std::vector<double> weights = {};

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }
  void add(int64_t column, double weight) {
    places.push_back(column);
    weights.push_back(weight);
  }
  void end_row() { starts.push_back(static_cast<int64_t>(places.size())); }
  Resampling transposed() const;
};

Array numbers(const std::vector<int64_t>& values, Device device) {
  const Array here = Array::empty({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), here.data<int64_t>());
  return here.to(device);
}

Array weights_as(const std::vector<double>& values, DType dtype, Device device) {
  const Array here = Array::empty({static_cast<int64_t>(values.size())}, kFloat64);
  std::copy(values.begin(), values.end(), here.data<double>());
  return here.to(dtype).to(device);
}

Tensor resample(const Tensor& x, int dim, std::shared_ptr<const Resampling> rows);

struct Resample : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int dim;
  std::shared_ptr<const Resampling> matrix;
  Resample(int d, std::shared_ptr<const Resampling> m) : dim(d), matrix(std::move(m)) {}
  const char* name() const override { return "resample"; }
  Array forward(const Array& x) {
    Shape shape = x.shape();
    shape[dim] = matrix->rows();
    const Array out = Array::empty(shape, x.dtype(), x.device());
    if (!core::has_values(x.device()) || out.numel() == 0) return out;
    const core::SparseRows rows{numbers(matrix->starts, x.device()),
                                numbers(matrix->places, x.device()),
                                weights_as(matrix->weights, x.dtype(), x.device())};
    core::backend(x.device()).run(core::call::SparseMatmul{rows, x.contiguous(), dim, out});
    return out;
  }
  Grads backward(const Tensor& g) override {
    return {resample(g, dim, std::make_shared<const Resampling>(matrix->transposed()))};
  }
};

// Columns become rows; entries keep their order.
Resampling Resampling::transposed() const {
  Resampling result;
  result.columns = rows();
  std::vector<int64_t> count(static_cast<size_t>(columns) + 1, 0);
  for (int64_t place : places) ++count[static_cast<size_t>(place) + 1];
  for (size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
  result.starts = count;
  result.places.resize(places.size());
  result.weights.resize(places.size());
  for (int64_t row = 0; row < rows(); ++row) {
    for (int64_t at = starts[static_cast<size_t>(row)]; at < starts[static_cast<size_t>(row) + 1];
         ++at) {
      const auto from = static_cast<size_t>(at);
      const auto to = static_cast<size_t>(count[static_cast<size_t>(places[from])]++);
      result.places[to] = row;
      result.weights[to] = weights[from];
    }
  }
  return result;
}

// The matrix times each line of x, float32 or float64, along `dim`. Its derivative is the
// transposed matrix.
Tensor resample(const Tensor& x, int dim, std::shared_ptr<const Resampling> rows) {
  return record(Resample(dim, std::move(rows)), x);
}

// One dimension: sizes, and how far positions are apart in the input.
struct Axis {
  int64_t in = 1, out = 1;
  double given_scale = 0.0;  // 0 where positions follow from the sizes
  bool align_corners = false;
  bool wide = false;  // of float64

  double scale() const {
    if (align_corners) {
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
    }
    return given_scale > 0.0 ? 1.0 / given_scale
                             : static_cast<double>(in) / static_cast<double>(out);
  }
  // The centre of pixel i in the input.
  double at(int64_t i) const {
    const double x = static_cast<double>(i);
    return align_corners ? scale() * x : scale() * (x + 0.5) - 0.5;
  }
};

// Real is the type in which PyTorch finds the nearest pixel: its rounding, at last to float,
// decides near whole numbers.
template <class Real>
Resampling nearest_rows_in(const Axis& axis, bool exact) {
  Resampling result{axis.in};
  const Real scale = axis.given_scale > 0.0
                         ? static_cast<Real>(1.0 / axis.given_scale)
                         : static_cast<Real>(axis.in) / static_cast<Real>(axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    const Real x = static_cast<Real>(i), at = (exact ? x + Real(0.5) : x) * scale;
    const auto place = static_cast<int64_t>(std::floor(static_cast<float>(at)));
    result.add(std::min(place, axis.in - 1), 1.0);
    result.end_row();
  }
  return result;
}

Resampling nearest_rows(const Axis& axis, bool exact) {
  return axis.wide ? nearest_rows_in<double>(axis, exact) : nearest_rows_in<float>(axis, exact);
}

// Every pixel for itself, where the size stays: then scale_factor does not count.
Resampling same_rows(const Axis& axis) {
  Resampling result{axis.in};
  for (int64_t i = 0; i < axis.out; ++i) {
    result.add(i, 1.0);
    result.end_row();
  }
  return result;
}

Resampling linear_rows(const Axis& axis) {
  if (axis.in == axis.out) return same_rows(axis);
  Resampling result{axis.in};
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = std::max(axis.at(i), 0.0);
    const int64_t below = std::min(static_cast<int64_t>(at), axis.in - 1);
    const double part = std::min(std::max(at - static_cast<double>(below), 0.0), 1.0);
    result.add(below, 1.0 - part);
    result.add(std::min(below + 1, axis.in - 1), part);
    result.end_row();
  }
  return result;
}

// Keys' kernel at a distance.
double cubic(double distance, double a) {
  const double d = std::fabs(distance);
  if (d < 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  if (d < 2.0) return (((d - 5.0) * d + 8.0) * d - 4.0) * a;
  return 0.0;
}
double triangle(double distance) { return std::max(0.0, 1.0 - std::fabs(distance)); }

Resampling cubic_rows(const Axis& axis) {
  Resampling result{axis.in};
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = axis.at(i), below = std::floor(at), part = at - below;
    for (int64_t tap = -1; tap <= 2; ++tap) {
      const int64_t place = static_cast<int64_t>(below) + tap;
      result.add(std::clamp<int64_t>(place, 0, axis.in - 1),
                 cubic(part - static_cast<double>(tap), -0.75));
    }
    result.end_row();
  }
  return result;
}

Resampling area_rows(const Axis& axis) {
  Resampling result{axis.in};
  for (int64_t i = 0; i < axis.out; ++i) {
    const int64_t first = i * axis.in / axis.out;
    const int64_t last = ((i + 1) * axis.in + axis.out - 1) / axis.out;
    for (int64_t place = first; place < last; ++place) {
      result.add(place, 1.0 / static_cast<double>(last - first));
    }
    result.end_row();
  }
  return result;
}

// The kernel stretched over the pixels between two of the output, its weights made to add up to 1.
Resampling smoothed_rows(const Axis& axis, bool is_cubic) {
  if (axis.in == axis.out) return same_rows(axis);
  Resampling result{axis.in};
  const double scale = axis.scale(), stretch = std::max(scale, 1.0);
  const double support = (is_cubic ? 2.0 : 1.0) * stretch;
  for (int64_t i = 0; i < axis.out; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const double from = centre - support + 0.5, to = centre + support + 0.5;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(from), 0);
    const int64_t last = std::min(static_cast<int64_t>(to), axis.in);
    std::vector<double> weights;
    double total = 0.0;
    for (int64_t place = first; place < last; ++place) {
      const double distance = (static_cast<double>(place) - centre + 0.5) / stretch;
      weights.push_back(is_cubic ? cubic(distance, -0.5) : triangle(distance));
      total += weights.back();
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      result.add(first + static_cast<int64_t>(j), total != 0.0 ? weights[j] / total : weights[j]);
    }
    result.end_row();
  }
  return result;
}

Resampling rows_of(const Axis& axis, const InterpolateOptions& options) {
  switch (options.mode) {
    case Interpolation::nearest:
      return axis.in == axis.out ? same_rows(axis) : nearest_rows(axis, false);
    case Interpolation::nearest_exact:
      return nearest_rows(axis, true);
    case Interpolation::area:
      return area_rows(axis);
    case Interpolation::bicubic:
      return options.antialias ? smoothed_rows(axis, true) : cubic_rows(axis);
    default:
      return options.antialias ? smoothed_rows(axis, false) : linear_rows(axis);
  }
}

// Dimensions behind N and C that a mode is made for; 0 for any number.
int spatial_dims(Interpolation mode) {
  if (mode == Interpolation::linear) return 1;
  if (mode == Interpolation::bilinear || mode == Interpolation::bicubic) return 2;
  return mode == Interpolation::trilinear ? 3 : 0;
}

void check_options(const Tensor& x, const InterpolateOptions& o) {
  const int dims = x.ndim() - 2, wanted = spatial_dims(o.mode);
  check(dims >= 1 && dims <= 3,
        "interpolate: x must be [N, C, ..] with 1 to 3 dimensions more: got ", x.shape());
  check(wanted == 0 || wanted == dims, "interpolate: the mode is made for ", wanted,
        " dimensions behind N and C: got shape ", x.shape());
  check(o.size.empty() != o.scale_factor.empty(), "interpolate: give either size or scale_factor");
  const size_t given = o.size.empty() ? o.scale_factor.size() : o.size.size();
  check(given == 1 || given == static_cast<size_t>(dims), "interpolate: ", given, " sizes for the ",
        dims, " dimensions behind N and C");
  check(!o.align_corners || wanted > 0, "interpolate: align_corners is of the linear modes");
  check(!o.antialias || (wanted == 2 && !o.align_corners),
        "interpolate: antialias is of bilinear and bicubic without align_corners");
  check(!o.recompute_scale_factor || o.size.empty(),
        "interpolate: recompute_scale_factor needs scale_factor");
  check(is_floating(x.dtype()), "interpolate: x is ", x.dtype(),
        "; convert it to a floating dtype");
}

Axis axis_of(const Tensor& x, const InterpolateOptions& o, int i) {
  const auto chosen = [i](const auto& list) {
    return list[list.size() == 1 ? 0 : static_cast<size_t>(i)];
  };
  Axis axis{x.size(2 + i), 0, 0.0, o.align_corners, x.dtype() == kFloat64};
  if (!o.size.empty()) {
    axis.out = chosen(o.size);
  } else {
    const double factor = chosen(o.scale_factor);
    const double size = std::floor(static_cast<double>(axis.in) * factor);
    check(factor > 0.0 && size < 0x1p62, "interpolate: scale_factor ", factor, " of ", axis.in,
          " pixels");
    axis.out = static_cast<int64_t>(size);
    if (!o.recompute_scale_factor) axis.given_scale = factor;
  }
  const bool may_be_empty = o.mode == Interpolation::area;  // as adaptive_avg_pool2d's
  check(axis.in > 0 && axis.out >= (may_be_empty ? 0 : 1),
        "interpolate: sizes must be positive: ", axis.in, " to ", axis.out, " of shape ",
        x.shape());
  return axis;
}

Tensor resampled(const Tensor& x, const InterpolateOptions& options) {
  std::vector<Axis> axes;
  Shape shape = x.shape();
  for (int i = 0; i < x.ndim() - 2; ++i) {
    axes.push_back(axis_of(x, options, i));
    shape[2 + i] = axes.back().out;
  }
  core::check_room("interpolate", shape.numel("interpolate"));
  // The last dimension, whose elements are gathered one by one, while there are few of them: first
  // where the others grow, and else last.
  const auto grows = [](const Axis& axis) { return axis.out >= axis.in; };
  const bool last_first = std::all_of(axes.begin(), axes.end() - 1, grows);
  Tensor result = x;
  const int count = static_cast<int>(axes.size());
  for (int step = 0; step < count; ++step) {
    const int i = last_first ? count - 1 - step : step;
    const Axis& axis = axes[static_cast<size_t>(i)];
    const Resampling rows =
        core::has_values(x.device())
            ? rows_of(axis, options)
            : Resampling{axis.in, std::vector<int64_t>(static_cast<size_t>(axis.out) + 1, 0)};
    result = resample(result, 2 + i, std::make_shared<const Resampling>(rows));
  }
  return result;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  detail::check_defined("interpolate", {{"x", x}});
  check_options(x, options);
  if (detail::any_half(x)) {
    return detail::in_float32("interpolate", AutocastRule::fallthrough, {x},
                              [options](const auto& in) { return resampled(in[0], options); });
  }
  return resampled(x, options);
}

Tensor upsample(const Tensor& x, const InterpolateOptions& options) {
  const detail::Named named("upsample", {"x", x});
  return interpolate(x, options);
}

namespace {

// Position floor(i size / count) for each i.
Tensor nearest(int64_t count, int64_t size, Device device) {
  if (!core::has_values(device)) return Tensor(Array::empty({count}, kInt64, device));
  const Array positions = Array::empty({count}, kInt64);
  for (int64_t i = 0; i < count; ++i) positions.data<int64_t>()[i] = detail::share(i, size, count);
  return Tensor(positions.to(device));
}

}  // namespace

Tensor upsample_nearest2d(const Tensor& x, Pair output_size) {
  const detail::Named named("upsample_nearest2d", {"x", x});
  detail::check_defined("upsample_nearest2d", {{"x", x}});
  constexpr auto kName = "upsample_nearest2d";
  check(x.ndim() == 3 || x.ndim() == 4, kName, ": x must be [N, C, H, W] or [C, H, W]: got shape ",
        x.shape());
  const auto [rows, columns] = output_size;
  const int64_t height = x.size(-2), width = x.size(-1);
  check(rows > 0 && columns > 0 && height > 0 && width > 0, kName, ": sizes must be positive: x ",
        x.shape(), ", output_size ", Shape{rows, columns});
  const Tensor tall = index_select(x, -2, nearest(rows, height, x.device()));
  return index_select(tall, -1, nearest(columns, width, x.device()));
}

}  // namespace hero
