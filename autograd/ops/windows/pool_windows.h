#pragma once
// What pooling of lines, images and volumes asks of its operand and its windows. Pools of one and
// three dimensions are made of those of images, so they ask first, under their own name.
#include <hero/autograd/ops/nn/nn.h>
#include <hero/core/backend.h>

namespace hero::detail {

/// The windows of a pool, with a number for each dimension after [N, C].
struct PoolWindows {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

/// Refuses x that is not [N, C, ..] or [C, ..] with `spatial` dimensions after C, or not floating.
void check_pooled(const char* op, const Tensor& x, int spatial);

/// Refuses also windows that are not positive, do not fit, or, for maxima, consist of padding
/// alone. Returns the sizes after C of the result. Steps that nobody takes become small in
/// `windows`, so that all positions fit into 64 bits.
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

}  // namespace hero::detail
