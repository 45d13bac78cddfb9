#pragma once
// Kernels that copy on one device, in tables by dtype: copy_kernels.cu.
#include <cstddef>

#include <hero/core/dtype.h>
#include <hero/cuda/elementwise/walk.cuh>

namespace hero::cuda {

/// The parameters of a kernel; array 0 of the walk is the destination, 1 the source.
struct CopyArgs {
  Walk walk;
  int64_t elements;  ///< behind the destination's first element; for a last vector not full
  const std::byte* src;
  std::byte* dst;
};

/// A matrix at every position of the walk, with rows in the source that are columns in the
/// destination: src[r + c * src_step] goes to dst[r * dst_step + c].
struct TransposeArgs {
  Walk walk;
  uint32_t rows, columns;  ///< the sizes of the destination
  int64_t src_step, dst_step;
  const std::byte* src;
  std::byte* dst;
};

using CopyKernel = void (*)(CopyArgs);
using TransposeKernel = void (*)(TransposeArgs);

/// Neighbours that the vector form moves at once: 16 bytes of the larger type.
constexpr int copy_vector(DType from, DType to) {
  return static_cast<int>(16 / std::max(item_size(from), item_size(to)));
}
/// Any strides, with conversion.
CopyKernel strided_copy(DType from, DType to);
/// Positions are vectors of copy_vector() elements; a source's stride of 0 repeats one element.
CopyKernel vector_copy(DType from, DType to);
/// Without conversion, by tiles of kTile x kTile and blocks of kTile x kTileRows threads.
TransposeKernel transpose_copy(DType dtype);
inline constexpr int kTile = 32, kTileRows = 8;

}  // namespace hero::cuda
