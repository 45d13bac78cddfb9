#pragma once
// The lines of an array along one dimension.
#include <hero/cuda/elementwise/layout.cuh>
#include <hero/cuda/reduce/block.cuh>

namespace hero::cuda {

/// Element i of line l lies at starts.at(l) + i * stride; lines are counted in row-major order of
/// the other dimensions.
struct Lines {
  Layout starts;
  int64_t count, n, stride;

  Lines(const core::Array& x, int dim)
      : starts(without(x.shape(), dim), without(x.strides(), dim)),
        n(x.ndim() > 0 ? x.shape()[dim] : 1),
        stride(x.ndim() > 0 && n > 1 ? x.strides()[dim] : 1) {
    count = n > 0 ? x.numel() / n : 0;
  }
  /// Whether the elements of a line are contiguous.
  HERO_HD bool dense() const { return stride == 1; }
  /// Whether neighbouring lines are contiguous, and nearer to each other than the elements of one
  /// line.
  bool side_by_side() const { return starts.ndim > 0 && starts.strides[starts.ndim - 1] < stride; }
  /// Whether dense lines can be read in packs.
  template <class E>
  bool whole(const core::Array& x) const {
    bool fit = dense() && packs_fit<E>(x.bytes(), 0);
    for (int d = 0; d < starts.ndim; ++d) fit = fit && starts.strides[d] % kRowPack<E> == 0;
    return fit;
  }

 private:
  static Dims without(const Dims& dims, int dim) {
    Dims rest = dims;
    if (rest.size() > 0) rest.erase(dim);
    return rest;
  }
};

/// Kernels on lines that lie side by side: a warp's lanes have 32 neighbouring lines, a block's 8
/// warps share their elements.
inline constexpr int kSlices = kThreads / kWarp;
struct LinePlace {
  int64_t line;
  int slice;
  __device__ static LinePlace mine() {
    const int thread = static_cast<int>(threadIdx.x);
    return {int64_t{blockIdx.x} * kWarp + thread % kWarp, thread / kWarp};
  }
};
/// Combines the slices' values of each line in order; every thread of the block calls it.
template <class T, class Join>
__device__ T join_slices(T value, Join join) {
  __shared__ T parts[kThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  parts[thread] = value;
  __syncthreads();
  value = parts[lane];
  for (int s = 1; s < kSlices; ++s) value = join(value, parts[s * kWarp + lane]);
  return value;
}

/// Calls body with a number of E's own dtype, for floating dtypes only.
template <class Body>
void dispatch_floats(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float64:
      return body(TypeTag<double>{});
    case DType::bfloat16:
      return body(TypeTag<BFloat16>{});
    case DType::float16:
      return body(TypeTag<Float16>{});
    default:
      return body(TypeTag<float>{});
  }
}

}  // namespace hero::cuda
