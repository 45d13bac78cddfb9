// Convolution of volumes as a matrix product. N images, C input and O output channels, KD taps of
// the depth and L places of the window in a plane. The columns of some planes of the output are
// made for one tap of the depth at a time, from views of the input's planes, so that no plane is
// copied before. See [note: three operations closed under differentiation].
#include <hero/autograd/graph/op.h>
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/autograd/ops/conv/volumes.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>

namespace hero::detail {

namespace {

// How a window moves along the depth: all of it is small enough to be multiplied.
struct DepthSteps {
  int64_t stride = 1, padding = 0, dilation = 1;
};

struct VolumeGeometry {
  core::Window window;  // in a plane
  DepthSteps depth;
  Shape x, w, y;

  int64_t images() const { return x[0]; }
  int64_t taps() const { return w[2]; }
  int64_t tap_rows() const { return x[1] * w[3] * w[4]; }
  int64_t rows() const { return taps() * tap_rows(); }
  int64_t planes() const { return y[2]; }
  int64_t places() const { return y[3] * y[4]; }
  bool is_pointwise() const {
    bool result = depth.stride == 1 && depth.padding == 0;
    for (int i = 0; i < 2; ++i) result = result && window.stride[i] == 1 && window.padding[i] == 0;
    return result && w[2] * w[3] * w[4] == 1;
  }
  core::Window3 windows() const {
    return volume_window(window, {w[2], depth.stride, depth.padding, depth.dilation});
  }
  // Planes of the output whose columns are made at a time.
  int64_t chunk(const Array& like) const {
    if (is_pointwise()) return planes();
    const int64_t bytes =
        std::max<int64_t>(1, Shape{rows(), places(), item_size(like.dtype())}.numel("conv3d"));
    return std::max<int64_t>(1, std::min(planes(), column_bytes(like.device()) / bytes));
  }
};

// Planes [first, last) of the output read tap `tap` of the depth from inside the input, where the
// first of them reads plane `from`.
struct InsidePlanes {
  int64_t first, last, from;
};
InsidePlanes inside_planes(const VolumeGeometry& g, int64_t tap, int64_t begin, int64_t end) {
  const int64_t offset = tap * g.depth.dilation - g.depth.padding, stride = g.depth.stride;
  const int64_t low = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const int64_t high = offset < g.x[2] ? (g.x[2] - offset + stride - 1) / stride : 0;
  const int64_t first = std::clamp(low, begin, end), last = std::clamp(high, first, end);
  return {first, last, first * stride + offset};
}

// Every stride-th plane of image n of x, those that `in` names: [planes, C, H, W].
Array planes_of(const Array& x, const VolumeGeometry& g, int64_t n, const InsidePlanes& in) {
  const int64_t count = in.last - in.first;
  const Array planes =
      x.select(0, n).slice(1, in.from, in.from + (count - 1) * g.depth.stride + 1, g.depth.stride);
  return planes.permute({1, 0, 2, 3});
}

// Calls body(tap, inside planes, their columns [planes, C KH KW, L] in `columns`) for each tap.
template <class Body>
void each_tap(const Array& columns, const VolumeGeometry& g, int64_t begin, int64_t end,
              Body&& body) {
  const Array split = columns.reshape({g.taps(), g.tap_rows(), end - begin, g.places()});
  for (int64_t tap = 0; tap < g.taps(); ++tap) {
    body(inside_planes(g, tap, begin, end), split.select(0, tap).permute({1, 0, 2}));
  }
}

// The columns [KD C KH KW, planes L] of planes [begin, end) of the output of image n.
Array volume_columns(const Array& x, const VolumeGeometry& g, int64_t n, int64_t begin,
                     int64_t end) {
  const Shape shape{g.rows(), (end - begin) * g.places()};
  if (g.is_pointwise()) return x.select(0, n).reshape(shape);
  core::Backend& device = core::backend(x.device());
  const Array columns = Array::empty(shape, x.dtype(), x.device());
  each_tap(columns, g, begin, end, [&](const InsidePlanes& in, const Array& of_tap) {
    if (in.first > begin) device.run(core::call::Fill{of_tap.slice(0, 0, in.first - begin), 0});
    if (in.last < end)
      device.run(core::call::Fill{of_tap.slice(0, in.last - begin, end - begin), 0});
    if (in.first == in.last) return;
    device.run(core::call::Im2col{planes_of(x, g, n, in), g.window,
                                  of_tap.slice(0, in.first - begin, in.last - begin)});
  });
  return columns;
}

// Calls body(image, first plane of the output, the one behind the last).
template <class Body>
void each_volume_chunk(const VolumeGeometry& g, const Array& like, Body&& body) {
  const int64_t step = g.chunk(like);
  for (int64_t n = 0; n < g.images(); ++n) {
    for (int64_t begin = 0; begin < g.planes(); begin += step) {
      body(n, begin, std::min(g.planes(), begin + step));
    }
  }
}

// Weight [O, C, KD, KH, KW] as a matrix [1, O, KD C KH KW].
Array volume_weight(const Array& w, const VolumeGeometry& g, DType dtype) {
  return w.to(dtype).permute({0, 2, 1, 3, 4}).reshape({1, g.w[0], g.rows()});
}

// Planes [begin, end) of image n of y as a matrix [1, O, planes L]; a copy unless they are all.
Array volume_places(const Array& y, const VolumeGeometry& g, int64_t n, int64_t begin,
                    int64_t end) {
  return y.select(0, n).slice(1, begin, end).reshape({1, g.y[1], (end - begin) * g.places()});
}

// Without columns, if that can be done in this dtype; else undefined.
Array convolve_volume_directly(const Array& x, const Array& w, const Array& bias,
                               const VolumeGeometry& g) {
  core::Backend& device = core::backend(x.device());
  const core::Window3 windows = g.windows();
  if (g.y.numel("conv3d") == 0 ||
      !device.run(core::call::HasConvolution{core::ConvolutionMap::output, x, g.y, windows, 1})) {
    return {};
  }
  const Array y = Array::empty(g.y, x.dtype(), x.device());
  const Array rows = volume_weight(w, g, x.dtype()).contiguous();
  const Array shift = bias.defined() ? bias.to(x.dtype()).contiguous() : Array();
  device.run(core::call::Convolve{x, rows, windows, 1, bias.defined() ? &shift : nullptr,
                                  core::Activation::none, y});
  return y;
}

Array convolve_volume(const Array& x_in, const Array& w_in, const Array& bias_in,
                      const VolumeGeometry& g) {
  if (core::has_native_products(x_in.dtype(), x_in.device())) {
    if (const Array y = convolve_volume_directly(x_in, w_in, bias_in, g); y.defined()) return y;
  }
  const DType dtype = column_dtype(x_in);
  const Array x = x_in.to(dtype), w = volume_weight(w_in, g, dtype);
  if (const Array y = convolve_volume_directly(x, w_in, bias_in, g); y.defined()) {
    return y.to(x_in.dtype());
  }
  const Array y = Array::empty(g.y, dtype, x.device());
  if (y.numel() == 0) return y.to(x_in.dtype());
  const Array bias =
      bias_in.defined() ? bias_in.to(dtype).contiguous().reshape({g.y[1], 1}) : Array();
  core::Backend& device = core::backend(x.device());
  each_volume_chunk(g, x, [&](int64_t n, int64_t begin, int64_t end) {
    const Array columns = volume_columns(x, g, n, begin, end).unsqueeze(0);
    const bool whole = end - begin == g.planes();
    const Array part = whole ? volume_places(y, g, n, begin, end)
                             : Array::empty({1, g.y[1], columns.size(2)}, dtype, x.device());
    device.run(core::call::Matmul{w, columns, part});
    const Array rows = part.squeeze(0);
    if (bias.defined())
      device.run(core::call::BiasActivation{core::Activation::none, &bias, rows, rows});
    if (whole) return;
    const Array target = y.select(0, n).slice(1, begin, end);
    device.run(core::call::Copy{part.reshape(target.shape()), target});
  });
  return y.to(x_in.dtype());
}

// Where windows move by one, the gradient of x is a convolution, too: of y, with what the kernel
// reaches as padding, by the kernel mirrored.
bool is_mirrored(const VolumeGeometry& g) {
  bool result = g.depth.stride == 1 && g.depth.padding <= g.depth.dilation * (g.w[2] - 1);
  for (int i = 0; i < 2; ++i) {
    const core::Window& plane = g.window;
    result = result && plane.stride[i] == 1 &&
             plane.padding[i] <= plane.dilation[i] * (plane.kernel[i] - 1);
  }
  return result && !g.is_pointwise();
}

VolumeGeometry mirrored(const VolumeGeometry& g) {
  VolumeGeometry back{g.window, g.depth, g.y, g.w, g.x};
  std::swap(back.w[0], back.w[1]);
  back.depth.padding = g.depth.dilation * (g.w[2] - 1) - g.depth.padding;
  for (int i = 0; i < 2; ++i) {
    back.window.padding[i] = g.window.dilation[i] * (g.window.kernel[i] - 1) - g.window.padding[i];
  }
  return back;
}

Array convolve_volume_back(const Array& y_in, const Array& w_in, const VolumeGeometry& g) {
  const DType dtype = column_dtype(y_in);
  const Array y = y_in.to(dtype).contiguous(), w = volume_weight(w_in, g, dtype).t();
  // Sums over taps are rounded once.
  const bool rounds = is_half(dtype) && !g.is_pointwise();
  const Array x = Array::zeros(g.x, rounds ? kFloat32 : dtype, y.device());
  if (x.numel() == 0 || y.numel() == 0) return x.to(y_in.dtype());
  core::Backend& device = core::backend(y.device());
  each_volume_chunk(g, y, [&](int64_t n, int64_t begin, int64_t end) {
    const Array part = volume_places(y, g, n, begin, end);
    if (g.is_pointwise()) {
      return device.run(
          core::call::Matmul{w, part, x.select(0, n).reshape({1, g.rows(), part.size(2)})});
    }
    const Array columns = Array::empty({1, g.rows(), part.size(2)}, dtype, y.device());
    device.run(core::call::Matmul{w, part, columns});
    each_tap(columns.squeeze(0), g, begin, end, [&](const InsidePlanes& in, const Array& of_tap) {
      if (in.first == in.last) return;
      const Array sums =
          Array::empty({in.last - in.first, g.x[1], g.x[3], g.x[4]}, dtype, y.device());
      device.run(
          core::call::Col2im{of_tap.slice(0, in.first - begin, in.last - begin), g.window, sums});
      const Array target = planes_of(x, g, n, in);
      core::map_into<core::kernels::Add>(target, target, sums);
    });
  });
  return x.to(y_in.dtype());
}

// [O, KD, C, KH, KW] as a weight.
Array in_weight_order(const Array& rows, const VolumeGeometry& g) {
  const Array ordered = rows.reshape({g.w[0], g.w[2], g.w[1], g.w[3], g.w[4]});
  return ordered.permute({0, 2, 1, 3, 4}).contiguous();
}

Array volume_weight_gradient(const Array& x_in, const Array& y_in, const VolumeGeometry& g) {
  const DType dtype = column_dtype(x_in);
  core::Backend& device = core::backend(x_in.device());
  const core::Window3 windows = g.windows();
  const bool is_native = core::has_native_products(x_in.dtype(), x_in.device());
  const Array factor = x_in.to(is_native ? x_in.dtype() : dtype);
  if (y_in.numel() > 0 && device.run(core::call::HasConvolution{core::ConvolutionMap::weight,
                                                                factor, g.w, windows, 1})) {
    const Array rows = Array::empty({g.w[0], g.rows()}, factor.dtype(), factor.device());
    const Array places = y_in.to(factor.dtype()).contiguous();
    device.run(core::call::ConvolveWeight{factor, places, windows, 1, g.chunk(factor), rows});
    return in_weight_order(rows, g).to(x_in.dtype());
  }
  const Array x = x_in.to(dtype), y = y_in.to(dtype).contiguous();
  const Array total = Array::zeros({1, g.w[0], g.rows()}, dtype, x.device());
  const Array part = total.empty_like();
  if (x.numel() > 0 && y.numel() > 0) {
    each_volume_chunk(g, x, [&](int64_t n, int64_t begin, int64_t end) {
      const Array columns = volume_columns(x, g, n, begin, end).unsqueeze(0);
      device.run(core::call::Matmul{volume_places(y, g, n, begin, end), columns.t(), part});
      core::map_into<core::kernels::Add>(total, total, part);
    });
  }
  return in_weight_order(total, g).to(x_in.dtype());
}

// x, w and perhaps bias -> y
struct VolumeConv : Op, TwoPartBackward {
  static constexpr CastRule kCast = CastRule::low;
  VolumeGeometry geometry;
  explicit VolumeConv(const VolumeGeometry& g) : geometry(g) {}
  bool saves_input(int i) const { return i < 2 && needs(1 - i); }
  const char* name() const override { return "conv3d"; }
  Array forward(std::span<const Array> in) {
    return convolve_volume(in[0], in[1], in.size() > 2 ? in[2] : Array(), geometry);
  }
  Grads backward(const Tensor& g) override;
};

// y, w -> x
struct VolumeConvBack : Op, TwoPartBackward {
  static constexpr CastRule kCast = CastRule::promote;
  VolumeGeometry geometry;
  explicit VolumeConvBack(const VolumeGeometry& g) : geometry(g) {}
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override { return "conv3d_input"; }
  Array forward(const Array& y, const Array& w) { return convolve_volume_back(y, w, geometry); }
  Grads backward(const Tensor& g) override;
};

// x, y -> w
struct VolumeConvWeight : Op {
  static constexpr CastRule kCast = CastRule::promote;
  VolumeGeometry geometry;
  explicit VolumeConvWeight(const VolumeGeometry& g) : geometry(g) {}
  bool saves_input(int i) const { return needs(1 - i); }
  const char* name() const override { return "conv3d_weight"; }
  Array forward(const Array& x, const Array& y) { return volume_weight_gradient(x, y, geometry); }
  Grads backward(const Tensor& g) override;
};

Tensor volume_input_gradient(const VolumeGeometry& g, const Tensor& y, const Tensor& w) {
  if (!is_mirrored(g)) return record(VolumeConvBack(g), y, w);
  return record_list(VolumeConv(mirrored(g)), {y, flip(transpose(w, 0, 1), {2, 3, 4})});
}

Grads VolumeConv::backward(const Tensor& g) {
  Grads grads{needs(0) ? volume_input_gradient(geometry, g, input(1)) : Tensor(),
              needs(1) ? record(VolumeConvWeight(geometry), input(0), g) : Tensor()};
  if (input_count() > 2) grads.push_back(needs(2) ? sum(g, {0, 2, 3, 4}) : Tensor());
  return grads;
}
Grads VolumeConvBack::backward(const Tensor& g) {
  return {needs(0) ? record_list(VolumeConv(geometry), {g, input(1)}) : Tensor(),
          needs(1) ? record(VolumeConvWeight(geometry), g, input(0)) : Tensor()};
}
Grads VolumeConvWeight::backward(const Tensor& g) {
  return {needs(0) ? volume_input_gradient(geometry, input(1), g) : Tensor(),
          needs(1) ? record_list(VolumeConv(geometry), {input(0), g}) : Tensor()};
}

void check_volume_operands(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias) {
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(x.dtype() == w.dtype(), op, ": x is ", x.dtype(), " and weight ", w.dtype(),
        "; convert one with to()");
  check(x.size(1) == w.size(1), op, ": x ", x.shape(), " does not fit weight ", w.shape(),
        " with groups = 1; weight is [O, C / groups, KD, KH, KW]");
  check(!bias.defined() || bias.shape() == Shape{w.size(0)}, op, ": bias has shape ",
        bias.defined() ? bias.shape() : Shape{}, "; it should be ", Shape{w.size(0)});
}

// The number of places along axis i. Steps that nobody takes become small, so that kernels may
// multiply by them.
int64_t places_along(const char* op, const Tensor& x, const Tensor& w, int i, DepthSteps& steps) {
  constexpr int64_t kMost = int64_t{1} << 60;
  check(steps.stride > 0 && steps.dilation > 0 && steps.padding >= 0, op,
        ": stride, dilation and groups must be positive and padding not negative: ", steps.stride,
        ", ", steps.dilation, ", 1, ", steps.padding);
  const int64_t kernel = w.size(2 + i);
  check(kernel > 0, op, ": empty kernel: weight has shape ", w.shape());
  const int64_t reach = (core::Checked{op, steps.dilation} * (kernel - 1) + 1).value;
  const int64_t padded = (core::Checked{op, x.size(2 + i)} + steps.padding + steps.padding).value;
  check(padded >= reach, op, ": kernel of reach ", reach, " is larger than the padded input of ",
        padded, ": x ", x.shape(), ", weight ", w.shape());
  check(padded <= kMost, op, ": a padded input of ", padded, " is too large; use less padding");
  if (kernel == 1) steps.dilation = 1;
  const int64_t places = (padded - reach) / steps.stride + 1;
  steps.stride = std::min(steps.stride, padded);
  return places;
}

Tensor conv3d_of_all(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Conv3dOptions& options) {
  constexpr auto kName = "conv3d";
  check_volume_operands(kName, x, weight, bias);
  VolumeGeometry geometry{{}, {}, x.shape(), weight.shape(), x.shape()};
  geometry.y[1] = weight.size(0);
  for (int i = 0; i < 3; ++i) {
    const auto axis = static_cast<size_t>(i);
    DepthSteps steps{options.stride[axis], options.padding[axis], options.dilation[axis]};
    geometry.y[2 + i] = places_along(kName, x, weight, i, steps);
    if (i == 0) {
      geometry.depth = steps;
      continue;
    }
    geometry.window.kernel[i - 1] = weight.size(2 + i);
    geometry.window.stride[i - 1] = steps.stride;
    geometry.window.padding[i - 1] = steps.padding;
    geometry.window.dilation[i - 1] = steps.dilation;
  }
  std::vector<Tensor> inputs{x, weight};
  if (bias.defined() && bias.dtype() == weight.dtype()) inputs.push_back(bias);
  if (!bias.defined() || inputs.size() > 2) return record_list(VolumeConv(geometry), inputs);
  // A bias of another dtype promotes.
  if (any_half(x, bias)) {
    return in_float32(kName, CastRule::low, {x, weight, bias}, [options](const auto& in) {
      return conv3d_of_all(in[0], in[1], in[2], options);
    });
  }
  return record_list(VolumeConv(geometry), inputs) + reshape(bias, {bias.numel(), 1, 1, 1});
}

}  // namespace

}  // namespace hero::detail

namespace hero {

using detail::as_planes, detail::as_volume, detail::batched, detail::plane, detail::reach_of;

namespace {

void check_volume(const char* op, const Tensor& x, const Tensor& weight) {
  check(x.ndim() == 5 && weight.ndim() == 5, op,
        ": x must be [N, C, D, H, W] and weight 5-D too: got ", x.shape(), " and ", weight.shape());
}

void check_depth(const char* op, int64_t stride, int64_t padding, int64_t dilation,
                 int64_t groups) {
  check(stride > 0 && dilation > 0 && padding >= 0 && groups > 0, op,
        ": stride, dilation and groups must be positive and padding not negative: ", stride, ", ",
        dilation, ", ", groups, ", ", padding);
}

// Windows along a depth.
int64_t depth_places(int64_t depth, int64_t taps, int64_t stride, int64_t dilation) {
  return (depth - dilation * (taps - 1) - 1) / stride + 1;
}

// x [N, C, D, H, W] with one tap of the depth after another in the channels: [N places, C KD, H,
// W].
Tensor with_depth_taps(const Tensor& x, int64_t taps, int64_t stride, int64_t dilation) {
  const int64_t places = depth_places(x.size(2), taps, stride, dilation);
  // Windows of all positions in reach, of which the taps are every dilation-th.
  const Tensor windows = unfold(x, 2, dilation * (taps - 1) + 1, stride);  // [N, C, P, H, W, reach]
  const Tensor chosen = slice(windows, 5, 0, kEnd, dilation);
  const Tensor ordered = permute(chosen, {0, 2, 1, 5, 3, 4});  // [N, P, C, KD, H, W]
  return reshape(ordered, {x.size(0) * places, x.size(1) * taps, x.size(3), x.size(4)});
}

Tensor pad_depth(const Tensor& x, int64_t before, int64_t after, double value = 0.0) {
  if (before == 0 && after == 0) return x;
  return pad(x, {0, 0, 0, 0, before, after}, PadMode::constant, value);
}

}  // namespace

// In groups by way of images, whose channels are the taps along the depth.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv3dOptions& options) {
  const detail::Named named("conv3d", {"x", x}, {"weight", weight});
  detail::check_defined("conv3d", {{"x", x}, {"weight", weight}});
  constexpr auto kName = "conv3d";
  if (const AutocastInputs in(CastRule::low, x, weight, bias); in.changed()) {
    return conv3d(in[0], in[1], in[2], options);
  }
  return batched(x, 4, [&](const Tensor& volume) {
    check_volume(kName, volume, weight);
    const auto [stride, padding, dilation, groups] = options;
    if (groups == 1) return detail::conv3d_of_all(volume, weight, bias, options);
    check_depth(kName, stride[0], padding[0], dilation[0], groups);
    check(volume.size(1) % groups == 0 && volume.size(1) / groups == weight.size(1), kName, ": x ",
          volume.shape(), " does not fit weight ", weight.shape(), " with groups = ", groups,
          "; weight is [O, C / groups, KD, KH, KW]");
    const int64_t taps = weight.size(2), reach = reach_of(kName, taps, dilation[0]);
    const int64_t padded = (core::Checked{kName, volume.size(2)} + padding[0] + padding[0]).value;
    check(taps > 0 && padded >= reach, kName, ": kernel of reach ", reach,
          " is larger than the padded input of ", padded, ": x ", volume.shape(), ", weight ",
          weight.shape());
    const int64_t by = std::min(stride[0], padded), between = taps == 1 ? 1 : dilation[0];
    const Tensor planes =
        with_depth_taps(pad_depth(volume, padding[0], padding[0]), taps, by, between);
    const Tensor w =
        reshape(weight, {weight.size(0), weight.size(1) * taps, weight.size(3), weight.size(4)});
    return as_volume(conv2d(planes, w, bias,
                            {.stride = plane(stride),
                             .padding = plane(padding),
                             .dilation = plane(dilation),
                             .groups = groups}),
                     volume.size(0), depth_places(padded, taps, by, between));
  });
}

// Planes of all taps of the depth, added up where they meet.
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& options) {
  const detail::Named named("conv_transpose3d", {"x", x}, {"weight", weight});
  detail::check_defined("conv_transpose3d", {{"x", x}, {"weight", weight}});
  constexpr auto kName = "conv_transpose3d";
  if (const AutocastInputs in(CastRule::low, x, weight, bias); in.changed()) {
    return conv_transpose3d(in[0], in[1], in[2], options);
  }
  if (detail::any_half(x, weight)) {
    return detail::in_float32(kName, CastRule::low, {x, weight, bias}, [options](const auto& in) {
      return conv_transpose3d(in[0], in[1], in[2], options);
    });
  }
  return batched(x, 4, [&](const Tensor& volume) {
    check_volume(kName, volume, weight);
    const auto [stride, padding, extra, dilation, groups] = options;
    check_depth(kName, stride[0], padding[0], dilation[0], groups);
    for (size_t i = 0; i < 3; ++i) {
      check(extra[i] >= 0 && (extra[i] < stride[i] || extra[i] < dilation[i]), kName,
            ": output_padding ", extra[i], " must be smaller than stride or dilation");
    }
    check(volume.size(1) == weight.size(0), kName, ": x ", volume.shape(), " does not fit weight ",
          weight.shape(), "; weight is [C, O / groups, KD, KH, KW]");
    const int64_t taps = weight.size(2), depth = volume.size(2), batch = volume.size(0);
    const int64_t whole = (core::Checked{kName, depth - 1} * stride[0] +
                           reach_of(kName, taps, dilation[0]) + extra[0])
                              .value;
    const int64_t size = (core::Checked{kName, whole} - padding[0] - padding[0]).value;
    check(taps > 0 && depth > 0 && size >= 0, kName, ": the output would be empty: x ",
          volume.shape(), ", weight ", weight.shape());
    const Tensor w =
        reshape(weight, {weight.size(0), weight.size(1) * taps, weight.size(3), weight.size(4)});
    const Tensor planes = conv_transpose2d(as_planes(volume), w, {},
                                           {.stride = plane(stride),
                                            .padding = plane(padding),
                                            .output_padding = plane(extra),
                                            .dilation = plane(dilation),
                                            .groups = groups});
    const int64_t outputs = planes.size(1) / taps, height = planes.size(2), width = planes.size(3);
    // [N, D, O, KD, h, w] to [N, O, D KD, h, w], and each to its place.
    const Tensor split = reshape(planes, {batch, depth, outputs, taps, height, width});
    const Tensor lined =
        reshape(permute(split, {0, 2, 1, 3, 4, 5}), {batch, outputs, depth * taps, height, width});
    const Tensor from(detail::positions(depth, x.device()));
    const Tensor tap(detail::positions(taps, x.device()));
    const Tensor place = reshape(unsqueeze(from * stride[0], 1) + tap * dilation[0], {-1});
    const Shape shape{batch, outputs, whole, height, width};
    const Tensor sum = narrow(detail::index_zeros(lined, shape, 2, place), 2, padding[0], size);
    const Tensor result = bias.defined() ? sum + reshape(bias, {bias.numel(), 1, 1, 1}) : sum;
    return contiguous(result);
  });
}

}  // namespace hero
