// Volumes by way of images: convolutions in groups take the taps along the depth as channels,
// pooling goes over planes and then over the depth.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/autograd/ops/windows/cells.h>
#include <hero/autograd/ops/windows/conv3d.h>
#include <hero/autograd/ops/windows/interpolate.h>
#include <hero/autograd/ops/windows/pool_windows.h>
#include <hero/core/checked.h>

namespace hero {

namespace {

Pair plane(const Triple& three) { return {three[1], three[2]}; }

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

// x [N, C, D, H, W] as [N D, C, H, W].
Tensor as_planes(const Tensor& x) {
  const Tensor turned = transpose(x, 1, 2);
  return reshape(turned, {x.size(0) * x.size(2), x.size(1), x.size(3), x.size(4)});
}

// Planes [N D, C, H, W] as [N, C, D, H, W].
Tensor as_volume(const Tensor& planes, int64_t batch, int64_t depth) {
  const Tensor split =
      reshape(planes, {batch, depth, planes.size(1), planes.size(2), planes.size(3)});
  return contiguous(transpose(split, 1, 2));
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

int64_t reach_of(const char* op, int64_t taps, int64_t dilation) {
  return (core::Checked{op, dilation} * (taps - 1) + 1).value;
}

template <class Body>
Tensor batched(const Tensor& x, int ndim, Body&& body) {
  return x.ndim() == ndim ? squeeze(body(unsqueeze(x, 0)), 0) : body(x);
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv3dOptions& options) {
  const detail::Named named("conv3d", {"x", x}, {"weight", weight});
  detail::check_defined("conv3d", {{"x", x}, {"weight", weight}});
  constexpr auto kName = "conv3d";
  if (const AutocastInputs in(kName, x, weight, bias); in.changed()) {
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
  if (const AutocastInputs in(kName, x, weight, bias); in.changed()) {
    return conv_transpose3d(in[0], in[1], in[2], options);
  }
  if (detail::any_half(x, weight)) {
    return detail::in_float32(kName, {x, weight, bias}, [options](const auto& in) {
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

namespace {

struct PoolSpec {
  Triple kernel, stride, padding, dilation;
  bool ceil_mode, count_include_pad;
  PoolOptions planes() const {
    return {.stride = plane(stride),
            .padding = plane(padding),
            .dilation = plane(dilation),
            .ceil_mode = ceil_mode,
            .count_include_pad = count_include_pad};
  }
  Pool1dOptions depth() const {
    return {.stride = stride[0],
            .padding = padding[0],
            .dilation = dilation[0],
            .ceil_mode = ceil_mode,
            .count_include_pad = count_include_pad};
  }
};

void check_volume_cells(const char* op, const Tensor& x, const Triple& cells) {
  detail::check_pooled(op, x, 3);
  detail::check_cells(op, x, {cells[0], cells[1], cells[2]});
}

// A volume [N, C, D, H, W] as lines [N H W, C, D].
Tensor as_lines(const Tensor& volume) {
  const Tensor turned = permute(volume, {0, 3, 4, 1, 2});  // [N, H, W, C, D]
  return reshape(
      turned, {volume.size(0) * volume.size(3) * volume.size(4), volume.size(1), volume.size(2)});
}

// Lines [N H W, C, D] as a volume whose other sizes are those of `like`.
Tensor from_lines(const Tensor& lines, const Tensor& like) {
  const Shape sizes{like.size(0), like.size(3), like.size(4), like.size(1), lines.size(2)};
  return contiguous(permute(reshape(lines, sizes), {0, 3, 4, 1, 2}));
}

// over(x) of planes, and then along(x) of lines.
template <class Over, class Along>
Tensor pooled(const Tensor& x, Over&& over, Along&& along) {
  return batched(x, 4, [&](const Tensor& volume) {
    const Tensor small = as_volume(over(as_planes(volume)), volume.size(0), volume.size(2));
    return from_lines(along(as_lines(small)), small);
  });
}

// The same of maxima and their places: that along the depth, and the one that its plane had there.
template <class Over, class Along>
ValuesIndices max_pooled(const Tensor& x, Over&& over, Along&& along) {
  if (x.ndim() == 4) {
    const ValuesIndices found = max_pooled(unsqueeze(x, 0), over, along);
    return {squeeze(found.values, 0), squeeze(found.indices, 0)};
  }
  const int64_t batch = x.size(0), plane_size = x.size(3) * x.size(4);
  const ValuesIndices planes = over(as_planes(x));
  const Tensor small = as_volume(planes.values, batch, x.size(2));
  const ValuesIndices lines = along(as_lines(small));
  const Tensor in_plane =
      gather(as_lines(as_volume(planes.indices, batch, x.size(2))), 2, lines.indices);
  return {from_lines(lines.values, small),
          from_lines(lines.indices * plane_size + in_plane, small)};
}

// Options of lines as those of images of height 1.
PoolOptions as_row(const Pool1dOptions& line) {
  return {.stride = Pair{1, *line.stride},
          .padding = {0, line.padding},
          .dilation = {1, line.dilation},
          .ceil_mode = line.ceil_mode,
          .count_include_pad = line.count_include_pad};
}

PoolSpec spec_of(Triple kernel, const Pool3dOptions& o) {
  return {kernel,      o.stride.value_or(kernel), o.padding, o.dilation,
          o.ceil_mode, o.count_include_pad};
}

}  // namespace

Tensor max_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options) {
  const detail::Named named("max_pool3d", {"x", x});
  detail::check_defined("max_pool3d", {{"x", x}});
  return max_pool3d_with_indices(x, kernel_size, options).values;
}
ValuesIndices max_pool3d_with_indices(const Tensor& x, Triple kernel_size,
                                      const Pool3dOptions& options) {
  const detail::Named named("max_pool3d_with_indices", {"x", x});
  detail::check_defined("max_pool3d", {{"x", x}});
  detail::PoolWindows windows = detail::pool_windows(kernel_size, options);
  detail::check_pool("max_pool3d", core::PoolOp::max, x, windows);
  const PoolSpec spec = spec_of(kernel_size, options);
  return max_pooled(
      x,
      [&](const Tensor& planes) {
        return max_pool2d_with_indices(planes, plane(spec.kernel), spec.planes());
      },
      [&](const Tensor& lines) {
        return max_pool1d_with_indices(lines, spec.kernel[0], spec.depth());
      });
}
Tensor avg_pool3d(const Tensor& x, Triple kernel_size, const Pool3dOptions& options) {
  const detail::Named named("avg_pool3d", {"x", x});
  detail::check_defined("avg_pool3d", {{"x", x}});
  detail::PoolWindows windows = detail::pool_windows(kernel_size, options);
  detail::check_pool("avg_pool3d", core::PoolOp::average, x, windows);
  check(options.divisor_override != 0, "avg_pool3d: divisor_override is 0");
  if (detail::any_half(x)) {
    return detail::in_float32(
        "avg_pool3d", {x}, [=](const auto& in) { return avg_pool3d(in[0], kernel_size, options); });
  }
  const PoolSpec spec = spec_of(kernel_size, options);
  PoolOptions over = spec.planes(), along = as_row(spec.depth());
  if (options.divisor_override) {  // sums of sums
    over.divisor_override = 1;
    along.divisor_override = options.divisor_override;
  }
  return pooled(
      x, [&](const Tensor& planes) { return avg_pool2d(planes, plane(spec.kernel), over); },
      [&](const Tensor& lines) {
        return squeeze(avg_pool2d(unsqueeze(lines, 2), {1, spec.kernel[0]}, along), 2);
      });
}
Tensor adaptive_avg_pool3d(const Tensor& x, Triple output_size) {
  const detail::Named named("adaptive_avg_pool3d", {"x", x});
  detail::check_defined("adaptive_avg_pool3d", {{"x", x}});
  check_volume_cells("adaptive_avg_pool3d", x, output_size);
  if (detail::any_half(x)) {
    return detail::in_float32("adaptive_avg_pool3d", {x}, [=](const auto& in) {
      return adaptive_avg_pool3d(in[0], output_size);
    });
  }
  return pooled(
      x, [&](const Tensor& planes) { return adaptive_avg_pool2d(planes, plane(output_size)); },
      [&](const Tensor& lines) { return adaptive_avg_pool1d(lines, output_size[0]); });
}
Tensor adaptive_max_pool3d(const Tensor& x, Triple output_size) {
  const detail::Named named("adaptive_max_pool3d", {"x", x});
  detail::check_defined("adaptive_max_pool3d", {{"x", x}});
  return adaptive_max_pool3d_with_indices(x, output_size).values;
}
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, Triple output_size) {
  const detail::Named named("adaptive_max_pool3d_with_indices", {"x", x});
  detail::check_defined("adaptive_max_pool3d", {{"x", x}});
  check_volume_cells("adaptive_max_pool3d", x, output_size);
  return max_pooled(
      x,
      [&](const Tensor& planes) {
        return adaptive_max_pool2d_with_indices(planes, plane(output_size));
      },
      [&](const Tensor& lines) { return adaptive_max_pool1d_with_indices(lines, output_size[0]); });
}

namespace {

// Zeros on both sides, pairs from the last dimension backwards: the half of what the kernel reaches
// beyond one element, the larger half behind.
std::vector<int64_t> same_padding(const char* op, const Tensor& weight,
                                  const std::vector<int64_t>& dilation) {
  std::vector<int64_t> padding;
  const int dims = static_cast<int>(dilation.size());
  check(weight.ndim() == dims + 2, op, ": weight has shape ", weight.shape());
  for (int i = dims - 1; i >= 0; --i) {
    const int64_t total = reach_of(op, weight.size(2 + i), dilation[static_cast<size_t>(i)]) - 1;
    padding.push_back(total / 2);
    padding.push_back(total - total / 2);
  }
  return padding;
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              int64_t dilation, int64_t groups) {
  const detail::Named named("conv1d", {"x", x}, {"weight", weight});
  detail::check_defined("conv1d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv1d(same ? pad(x, same_padding("conv1d", weight, {dilation})) : x, weight, bias,
                {.dilation = dilation, .groups = groups});
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Pair dilation, int64_t groups) {
  const detail::Named named("conv2d", {"x", x}, {"weight", weight});
  detail::check_defined("conv2d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv2d(same ? pad(x, same_padding("conv2d", weight, {dilation[0], dilation[1]})) : x,
                weight, bias, {.dilation = dilation, .groups = groups});
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, PaddingWord padding,
              Triple dilation, int64_t groups) {
  const detail::Named named("conv3d", {"x", x}, {"weight", weight});
  detail::check_defined("conv3d", {{"x", x}, {"weight", weight}});
  const bool same = padding == PaddingWord::same;
  return conv3d(
      same ? pad(x, same_padding("conv3d", weight, {dilation[0], dilation[1], dilation[2]})) : x,
      weight, bias, {.dilation = dilation, .groups = groups});
}

}  // namespace hero
