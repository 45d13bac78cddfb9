// Resampling along each dimension: a sparse matrix a mode, whose transpose is the derivative.
#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/windows/interpolate.h>
#include <hero/autograd/ops/windows/resample.h>
#include <hero/core/allocator.h>

namespace hero {

namespace {

using detail::Resampling;

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
        x.device() == kMeta
            ? Resampling{axis.in, std::vector<int64_t>(static_cast<size_t>(axis.out) + 1, 0)}
            : rows_of(axis, options);
    result = detail::resample(result, 2 + i, std::make_shared<const Resampling>(rows));
  }
  return result;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  detail::check_defined("interpolate", {{"x", x}});
  check_options(x, options);
  if (detail::any_half(x)) {
    return detail::in_float32("interpolate", {x},
                              [options](const auto& in) { return resampled(in[0], options); });
  }
  return resampled(x, options);
}

Tensor upsample(const Tensor& x, const InterpolateOptions& options) {
  const detail::Named named("upsample", {"x", x});
  return interpolate(x, options);
}

}  // namespace hero
