// Sampling images at points, by one kernel on the host. The composed definition gathers the
// neighbouring pixels and multiplies them by weights that depend on the points, so there are
// derivatives of any order with respect to both.
#include <cmath>

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/resampling/grid_sample.h>
#include <hero/core/functions/grid_sample.h>

namespace hero {

namespace {

// The coordinate of one dimension in pixels.
Tensor in_pixels(const Tensor& coordinate, int64_t size, bool align_corners) {
  const double n = static_cast<double>(size);
  const Tensor shifted = coordinate + 1.0;
  return align_corners ? shifted * ((n - 1.0) / 2.0) : (shifted * n - 1.0) / 2.0;
}

// Cut to the image; on the border and beyond there is no gradient.
Tensor cut_to_image(const Tensor& at, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const Tensor inside = logical_and(at > 0.0, at < last);
  return where(inside, at, clamp(at.detach(), 0.0, last));
}

// Reflected at the corner pixels' centres or outer edges until it lies between them.
Tensor reflected(const Tensor& at, int64_t size, bool align_corners) {
  const double low = align_corners ? 0.0 : -0.5;
  const double span = static_cast<double>(align_corners ? size - 1 : size);
  if (span == 0.0) return at * 0.0;
  const Tensor distance = abs(at - low), flips = floor(distance.detach() / span);
  const Tensor extra = distance - flips * span, odd = remainder(flips, 2.0) == 1.0;
  return where(odd, span - extra, extra) + low;
}

Tensor padded(const Tensor& at, int64_t size, const GridSampleOptions& o) {
  if (o.padding_mode == GridPadding::border) return cut_to_image(at, size);
  if (o.padding_mode == GridPadding::reflection) {
    return cut_to_image(reflected(at, size, o.align_corners), size);
  }
  return at;
}

// A whole position a dimension, and whether it lies in the image; NaN counts as far outside.
struct PixelIndex {
  Tensor index;   // int64, within the dimension
  Tensor inside;  // bool
};
PixelIndex pixel_index(const Tensor& whole, int64_t size) {
  const Tensor at = whole.detach();
  const double last = static_cast<double>(size - 1);
  return {clamp(where(isnan(at), 0.0, at), 0.0, last).to(kInt64),
          logical_and(at >= 0.0, at <= last)};
}

// Pixels of x [N, C, sizes..] at one place a dimension [N, points..], 0 outside: [N, C, points..].
Tensor pixels(const Tensor& x, const std::vector<PixelIndex>& places) {
  Tensor position, inside;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t size = x.size(2 + static_cast<int64_t>(i));
    position = position.defined() ? position * size + places[i].index : places[i].index;
    inside = inside.defined() ? logical_and(inside, places[i].inside) : places[i].inside;
  }
  Shape shape = position.shape();
  const int64_t batch = x.size(0), channels = x.size(1),
                points = shape[0] == 0 ? 0 : position.numel() / shape[0];
  const Tensor index = expand(reshape(position, {batch, 1, points}), {batch, channels, points});
  const Tensor flat = reshape(x, {batch, channels, -1});
  const Tensor values = where(reshape(inside, {batch, 1, points}), gather(flat, 2, index), 0);
  shape.insert(1, channels);
  return reshape(values, shape);
}

Tensor over_channels(const Tensor& weight) { return unsqueeze(weight, 1); }

Tensor nearest(const Tensor& x, const std::vector<Tensor>& at) {
  std::vector<PixelIndex> places;
  for (size_t i = 0; i < at.size(); ++i) {
    places.push_back(pixel_index(round(at[i].detach()), x.size(2 + static_cast<int64_t>(i))));
  }
  return pixels(x, places);
}

// The 2^d corners of the cell, each with the product of its distances to the opposite one.
Tensor linear(const Tensor& x, const std::vector<Tensor>& at) {
  const size_t dims = at.size();
  Tensor total;
  for (size_t corner = 0; corner < (size_t{1} << dims); ++corner) {
    std::vector<PixelIndex> places;
    Tensor weight;
    for (size_t i = 0; i < dims; ++i) {
      const Tensor below = floor(at[i].detach()), part = at[i] - below;
      const bool upper = (corner >> (dims - 1 - i)) & 1u;
      places.push_back(
          pixel_index(upper ? below + 1.0 : below, x.size(2 + static_cast<int64_t>(i))));
      const Tensor own = upper ? part : 1.0 - part;
      weight = weight.defined() ? weight * own : own;
    }
    const Tensor term = pixels(x, places) * over_channels(weight);
    total = total.defined() ? total + term : term;
  }
  return total;
}

// Keys' kernel with a = -0.75 at the four taps around a part of a pixel.
std::vector<Tensor> cubic_weights(const Tensor& part) {
  constexpr double a = -0.75;
  const auto inner = [](const Tensor& d) { return ((d * (a + 2.0)) - (a + 3.0)) * d * d + 1.0; };
  const auto outer = [](const Tensor& d) { return (((d - 5.0) * d + 8.0) * d - 4.0) * a; };
  return {outer(part + 1.0), inner(part), inner(1.0 - part), outer(2.0 - part)};
}

Tensor cubic(const Tensor& x, const std::vector<Tensor>& at, const GridSampleOptions& o) {
  const Tensor row = floor(at[0].detach()), column = floor(at[1].detach());
  const std::vector<Tensor> down = cubic_weights(at[0] - row),
                            across = cubic_weights(at[1] - column);
  const auto tap = [&](const Tensor& below, size_t i, int64_t size) {
    return pixel_index(padded(below + (static_cast<double>(i) - 1.0), size, o), size);
  };
  Tensor total;
  for (size_t i = 0; i < 4; ++i) {
    Tensor line;
    for (size_t j = 0; j < 4; ++j) {
      const Tensor values = pixels(x, {tap(row, i, x.size(2)), tap(column, j, x.size(3))});
      const Tensor term = values * over_channels(across[j]);
      line = line.defined() ? line + term : term;
    }
    const Tensor term = line * over_channels(down[i]);
    total = total.defined() ? total + term : term;
  }
  return total;
}

void check_grid(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  const int dims = x.ndim() - 2;
  check((dims == 2 || dims == 3) && grid.ndim() == x.ndim() && grid.size(-1) == dims &&
            grid.size(0) == x.size(0),
        "grid_sample: x ", x.shape(), " and grid ", grid.shape(),
        "; they are [N, C, H, W] and [N, h, w, 2], or [N, C, D, H, W] and [N, d, h, w, 3]");
  check(x.dtype() == grid.dtype() && is_floating(x.dtype()), "grid_sample: x is ", x.dtype(),
        ", grid ", grid.dtype(), "; both must be of one floating dtype");
  check(x.numel() > 0 || x.size(0) == 0 || x.size(1) == 0,
        "grid_sample: an image without pixels: ", x.shape());
  check(o.mode != GridMode::bicubic || dims == 2, "grid_sample: bicubic is made for [N, C, H, W]");
}

core::GridSampling sampling_of(const GridSampleOptions& o) {
  using Outside = core::GridSampling::Outside;
  const int taps = o.mode == GridMode::nearest ? 1 : o.mode == GridMode::bilinear ? 2 : 4;
  const bool is_border = o.padding_mode == GridPadding::border;
  const bool is_reflected = o.padding_mode == GridPadding::reflection;
  return {taps,
          is_border      ? Outside::border
          : is_reflected ? Outside::reflection
                         : Outside::zeros,
          o.align_corners};
}

// On the host [note: fused and composed].
struct GridSample : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b11;
  GridSampleOptions options;
  explicit GridSample(const GridSampleOptions& o) : options(o) {}
  const char* name() const override { return "grid_sample"; }

  Array forward(const Array& x, const Array& grid) {
    return core::grid_sample(sampling_of(options), x, grid);
  }

  Grads backward(const Tensor& g) override {
    const Tensor x = input(0), grid = input(1);
    const bool is_flat = options.mode == GridMode::nearest;
    Grads grads;
    if (grad_enabled()) {
      grads = detail::composed_backward(*this, {x, grid}, {g}, [o = options](const auto& in) {
        return std::vector<Tensor>{detail::composed_grid_sample(in[0], in[1], o)};
      });
    } else {
      const core::GridSampling how = sampling_of(options);
      grads.resize(2);
      if (needs(0)) {
        grads[0] = Tensor(core::grid_sample_back_x(how, g.array(), x.shape(), grid.array()));
      }
      if (needs(1) && !is_flat) {
        grads[1] = Tensor(core::grid_sample_back_grid(how, g.array(), x.array(), grid.array()));
      }
    }
    // The nearest pixel is the same one nearby.
    if (needs(1) && is_flat) grads[1] = zeros_like(grid);
    return grads;
  }
};

}  // namespace

Tensor detail::composed_grid_sample(const Tensor& x, const Tensor& grid,
                                    const GridSampleOptions& options) {
  // The grid names the last dimension first.
  std::vector<Tensor> at;
  for (int i = 0; i < x.ndim() - 2; ++i) {
    const Tensor raw = select(grid, -1, x.ndim() - 3 - i);
    const Tensor pixel =
        in_pixels(where(isnan(raw), -1.0, raw), x.size(2 + i), options.align_corners);
    at.push_back(options.mode == GridMode::bicubic ? pixel : padded(pixel, x.size(2 + i), options));
  }
  if (options.mode == GridMode::nearest) return nearest(x, at);
  return options.mode == GridMode::bicubic ? cubic(x, at, options) : linear(x, at);
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  detail::check_defined("grid_sample", {{"x", x}, {"grid", grid}});
  if (const AutocastInputs in(AutocastRule::float32, x, grid); in.changed()) {
    return grid_sample(in[0], in[1], options);
  }
  check_grid(x, grid, options);
  if (detail::any_half(x)) {
    return detail::in_float32(
        "grid_sample", AutocastRule::float32, {x, grid},
        [options](const auto& in) { return grid_sample(in[0], in[1], options); });
  }
  if (core::samples_on_host(x.array())) return record(GridSample(options), x, grid);
  return detail::composed_grid_sample(x, grid, options);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners) {
  const detail::Named named("affine_grid", {"theta", theta});
  const int dims = size.size() - 2;
  check((dims == 2 || dims == 3) && theta.shape() == Shape{size[0], dims, dims + 1},
        "affine_grid: theta of shape ", theta.shape(), " for size ", size,
        "; it must be [N, 2, 3] for 4 dimensions or [N, 3, 4] for 5");
  check(is_floating(theta.dtype()), "affine_grid: theta is ", theta.dtype(),
        "; it must be floating");
  if (detail::any_half(theta)) {
    return detail::in_float32(
        "affine_grid", AutocastRule::fallthrough, {theta},
        [=](const auto& in) { return affine_grid(in[0], size, align_corners); });
  }
  const Autocast off({.enabled = false});  // a half has too few digits for a place in an image
  const TensorOptions like{.dtype = theta.dtype(), .device = theta.device()};
  std::vector<Tensor> lines;
  for (int i = 0; i < dims; ++i) {
    const int64_t n = size[2 + i];
    check(n > 0, "affine_grid: sizes must be positive: ", size);
    const double end = align_corners ? 1.0 : 1.0 - 1.0 / static_cast<double>(n);
    lines.push_back(n == 1 ? zeros({1}, like) : linspace(-end, end, n, like));
  }
  // The last dimension's coordinate comes first, and 1 behind them all.
  std::vector<Tensor> columns = meshgrid(lines);
  std::reverse(columns.begin(), columns.end());
  columns.push_back(ones(columns[0].shape(), like));
  const Tensor base = reshape(stack(columns, -1), {-1, dims + 1});
  Shape shape{size[0]};
  for (int i = 0; i < dims; ++i) shape.push_back(size[2 + i]);
  shape.push_back(dims);
  return reshape(matmul(base, theta.t()), shape);
}

}  // namespace hero
