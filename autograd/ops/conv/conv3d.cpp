// Convolution of volumes and its transpose.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/conv/conv_maps.h>
#include <hero/autograd/ops/conv/volumes.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>

namespace hero::detail {

namespace {

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
int64_t places_along(const char* op, const Tensor& x, const Tensor& w, int i, DepthWindow& steps) {
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
  Geometry geometry{{}, {}, 1, x.shape(), weight.shape(), x.shape()};
  geometry.y[1] = weight.size(0);
  for (int i = 0; i < 3; ++i) {
    const auto axis = static_cast<size_t>(i);
    DepthWindow steps{weight.size(2 + i), options.stride[axis], options.padding[axis],
                      options.dilation[axis]};
    geometry.y[2 + i] = places_along(kName, x, weight, i, steps);
    if (i == 0) {
      geometry.depth = steps;
      continue;
    }
    geometry.window.kernel[i - 1] = steps.kernel;
    geometry.window.stride[i - 1] = steps.stride;
    geometry.window.padding[i - 1] = steps.padding;
    geometry.window.dilation[i - 1] = steps.dilation;
  }
  std::vector<Tensor> inputs{x, weight};
  if (bias.defined() && bias.dtype() == weight.dtype()) inputs.push_back(bias);
  if (!bias.defined() || inputs.size() > 2) return record_convolution(geometry, inputs);
  // A bias of another dtype promotes.
  if (any_half(x, bias)) {
    return in_float32(
        kName, AutocastRule::lower_precision, {x, weight, bias},
        [options](const auto& in) { return conv3d_of_all(in[0], in[1], in[2], options); });
  }
  return record_convolution(geometry, inputs) + reshape(bias, {bias.numel(), 1, 1, 1});
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
  if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, bias); in.changed()) {
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
  if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, bias); in.changed()) {
    return conv_transpose3d(in[0], in[1], in[2], options);
  }
  if (detail::any_half(x, weight)) {
    return detail::in_float32(
        kName, AutocastRule::lower_precision, {x, weight, bias},
        [options](const auto& in) { return conv_transpose3d(in[0], in[1], in[2], options); });
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
