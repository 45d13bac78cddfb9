#pragma once
// The checks of operand and windows in pooling of lines, images and volumes. Pooling in one and
// three dimensions is computed by that of images, so it checks first, under its own name. Also
// helpers of adaptive pooling.
#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>

namespace hero::detail {

/// The windows of a pool, with a number for each dimension after [N, C].
struct PoolWindows {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

/// Throws an Error unless x is floating and [N, C, ..] or [C, ..], with `spatial` dimensions after
/// C.
void check_pooled(const char* op, const Tensor& x, int spatial);

/// Also throws an Error for windows that are not positive, do not fit or, for maxima, consist of
/// padding alone. Returns the sizes of the result after C. Strides and dilations that no window
/// uses become small in `windows`, so that all positions fit into 64 bits.
Dims check_pool(const char* op, core::PoolOp kind, const Tensor& x, PoolWindows& windows);

/// The windows that a kernel of N sizes, and options with the names of PoolOptions, describe.
template <size_t N, class Options>
PoolWindows pool_windows(const WindowSizes<N>& kernel, const Options& options) {
  const auto dims = [](const WindowSizes<N>& sizes) {
    return Dims(std::span<const int64_t>(sizes));
  };
  const WindowSizes<N> stride = options.stride ? WindowSizes<N>(*options.stride) : kernel;
  return {dims(kernel), dims(stride), dims(options.padding), dims(options.dilation),
          options.ceil_mode};
}

//// floor(i size / count) for i <= count, where the product may have more than 64 bits.
inline int64_t share(int64_t i, int64_t size, int64_t count) {
  __extension__ typedef __int128 Wide;
  return static_cast<int64_t>(static_cast<Wide>(i) * size / count);
}

/// Throws an Error for output sizes below -1 (which stands for x's size) and for x [.., H, W]
/// without pixels, in as many dimensions as there are output sizes.
inline void check_cells(const char* op, const Tensor& x, const Shape& cells) {
  for (int i = 0; i < cells.size(); ++i) {
    check(cells[i] >= -1, op, ": output_size must not be negative, except -1: ", cells);
    check(x.size(i - cells.size()) > 0, op, ": x has no pixels: shape ", x.shape());
  }
}

/// The result for an output size of which one number is 0; its gradient is zeros.
inline Tensor no_cells(const Tensor& x, hero::Pair cells) {
  Shape shape = x.shape();
  shape[x.ndim() - 2] = cells[0];
  shape[x.ndim() - 1] = cells[1];
  return reshape(narrow(x, cells[0] == 0 ? -2 : -1, 0, 0), shape);
}

}  // namespace hero::detail
