#include <algorithm>

#include <hero/autograd/ops/pool/pool_windows.h>
#include <hero/core/array/checked.h>

namespace hero::detail {

namespace {

constexpr const char* kLayouts[] = {"[N, C, L] or [C, L]", "[N, C, H, W] or [C, H, W]",
                                    "[N, C, D, H, W] or [C, D, H, W]"};

// The windows along one axis.
struct PoolAxis {
  int64_t size, kernel, stride, padding, dilation;
};

void check_positive(const char* op, const PoolAxis& axis) {
  check(axis.kernel > 0 && axis.stride > 0 && axis.dilation > 0, op,
        ": kernel_size, stride and dilation must be positive: ", axis.kernel, ", ", axis.stride,
        ", ", axis.dilation);
  check(axis.padding >= 0 && axis.padding <= axis.kernel / 2, op, ": padding ", axis.padding,
        " must lie between 0 and half of kernel_size ", axis.kernel);
}

void bound_steps(const char* op, PoolAxis& axis) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t padded = (core::Checked{op, axis.size} + axis.padding + axis.padding).value;
  const core::Checked spanned = core::Checked{op, axis.dilation} * (axis.kernel - 1);
  check(padded <= kMost && spanned.value <= kMost, op, ": a window of ", axis.kernel, " by ",
        axis.dilation, " over a padded input of ", padded, " is too large");
  if (axis.kernel == 1) axis.dilation = 1;
  axis.stride = std::min(axis.stride, std::max(padded, spanned.value) + 1);
}

// Places of the window. With ceil_mode the last may hang over the end, but starts inside the input
// or its left padding.
int64_t places(const PoolAxis& axis, bool ceil_mode) {
  const int64_t reach = axis.dilation * (axis.kernel - 1) + 1;
  const int64_t room = axis.size + 2 * axis.padding - reach, more = ceil_mode ? axis.stride - 1 : 0;
  if (room + more < 0) return 0;
  const int64_t count = (room + more) / axis.stride + 1;
  const bool is_behind = ceil_mode && (count - 1) * axis.stride >= axis.size + axis.padding;
  return is_behind ? count - 1 : count;
}

// Whether one of `count` windows has no element of the input: it starts in front of it, and a step
// leads over it. Every window reaches the input's beginning, since padding is at most half of the
// kernel.
bool is_passed_over(const PoolAxis& axis, int64_t count) {
  if (axis.dilation <= axis.size) return false;
  const int64_t in_front = (axis.padding + axis.stride - 1) / axis.stride;
  // Starts repeat after as many windows as the dilation has elements.
  const int64_t looked_at = std::min({count, in_front, axis.dilation});
  for (int64_t i = 0; i < looked_at; ++i) {
    const int64_t before = axis.padding - i * axis.stride;  // elements from the start to the input
    const int64_t first = (before + axis.dilation - 1) / axis.dilation * axis.dilation - before;
    if (first >= axis.size) return true;
  }
  return false;
}

}  // namespace

void check_pooled(const char* op, const Tensor& x, int spatial) {
  check(x.ndim() == spatial + 1 || x.ndim() == spatial + 2, op, ": x must be ",
        kLayouts[spatial - 1], ": got shape ", x.shape());
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

Dims check_pool(const char* op, core::PoolOp kind, const Tensor& x, PoolWindows& windows) {
  const int spatial = windows.kernel.size();
  check_pooled(op, x, spatial);
  for (int i = 0; i < spatial; ++i) {
    check_positive(
        op, {0, windows.kernel[i], windows.stride[i], windows.padding[i], windows.dilation[i]});
    check(kind == core::PoolOp::max || windows.dilation[i] == 1, op,
          ": dilation is for max pooling only: ", windows.dilation[i]);
  }
  windows.kernel.numel(op);  // an average may divide by it
  Dims sizes;
  for (int i = 0; i < spatial; ++i) {
    PoolAxis axis{x.size(i - spatial), windows.kernel[i], windows.stride[i], windows.padding[i],
                  windows.dilation[i]};
    bound_steps(op, axis);
    sizes.push_back(places(axis, windows.ceil_mode));
    check(sizes.back() > 0, op, ": a window of ", axis.kernel, " does not fit into x ", x.shape(),
          " with padding ", axis.padding);
    check(kind != core::PoolOp::max || !is_passed_over(axis, sizes.back()), op, ": a window of ",
          axis.kernel, " by dilation ", axis.dilation, " has padding alone: x ", x.shape(),
          ", padding ", axis.padding, "; use less of either");
    windows.stride[i] = axis.stride;
    windows.dilation[i] = axis.dilation;
  }
  return sizes;
}

}  // namespace hero::detail
