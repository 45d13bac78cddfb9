#pragma once
// Helpers of convolution and pooling of volumes.
#include <hero/autograd/ops/conv/window_sizes.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/array/checked.h>

namespace hero::detail {

/// Height and width.
inline hero::Pair plane(const Triple& three) { return {three[1], three[2]}; }

/// x [N, C, D, H, W] as [N D, C, H, W].
inline Tensor as_planes(const Tensor& x) {
  const Tensor turned = transpose(x, 1, 2);
  return reshape(turned, {x.size(0) * x.size(2), x.size(1), x.size(3), x.size(4)});
}

/// Planes [N D, C, H, W] as [N, C, D, H, W].
inline Tensor as_volume(const Tensor& planes, int64_t batch, int64_t depth) {
  const Tensor split =
      reshape(planes, {batch, depth, planes.size(1), planes.size(2), planes.size(3)});
  return contiguous(transpose(split, 1, 2));
}

/// The number of positions that a window of this many taps spans.
inline int64_t reach_of(const char* op, int64_t taps, int64_t dilation) {
  return (core::Checked{op, dilation} * (taps - 1) + 1).value;
}

/// body(x); an x [C, D, H, W] is passed as a batch of one.
template <class Body>
Tensor batched(const Tensor& x, int ndim, Body&& body) {
  return x.ndim() == ndim ? squeeze(body(unsqueeze(x, 0)), 0) : body(x);
}

}  // namespace hero::detail
