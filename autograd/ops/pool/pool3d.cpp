// Pooling of volumes: over planes, and then over the depth.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/volumes.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/pool/pool.h>
#include <hero/autograd/ops/pool/pool_windows.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>

namespace hero {

using detail::as_planes, detail::as_volume, detail::batched, detail::plane;

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
    return detail::in_float32("avg_pool3d", AutocastRule::fallthrough, {x}, [=](const auto& in) {
      return avg_pool3d(in[0], kernel_size, options);
    });
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
    return detail::in_float32(
        "adaptive_avg_pool3d", AutocastRule::fallthrough, {x},
        [=](const auto& in) { return adaptive_avg_pool3d(in[0], output_size); });
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

}  // namespace hero
