#pragma once
// Reading and writing elements: vectors of up to 16 bytes, and single ones of a dtype that is known
// only as the kernel runs.
#include <hero/core/dtype.h>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

/// The largest number of bytes that one instruction of a thread moves.
inline constexpr int kVectorBytes = 16;

/// Neighbouring elements that one instruction moves.
template <class S, int N>
struct alignas(sizeof(S) * N) Pack {
  S at[N];
};

/// Whether this address is aligned for a Pack of `bytes` bytes.
inline bool aligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

/// Blocks for `n` items in a loop over the grid: all at once, or as many as keep the largest GPU's
/// multiprocessors (132 to 144, 8 blocks each) busy a few times over.
inline dim3 loop_blocks(int64_t n, int64_t threads = kThreads) {
  return dim3(std::min(blocks_for(n, threads).x, 144u * 8u * 4u));
}

#if defined(__CUDACC__) || defined(HERO_CUSIM)

/// Element i of an array of `dtype`, as a T.
template <class T>
__device__ T read_as(const std::byte* array, DType dtype, int64_t i) {
  return dispatch(
      dtype, [&]<class S>(TypeTag<S>) { return convert<T>(reinterpret_cast<const S*>(array)[i]); });
}

/// Stores a value as element i of an array of `dtype`.
template <class T>
__device__ void write_as(std::byte* array, DType dtype, int64_t i, T value) {
  dispatch(dtype, [&]<class S>(TypeTag<S>) { reinterpret_cast<S*>(array)[i] = convert<S>(value); });
}

/// The first `have` of N neighbours, converted; the others are 0. With `whole`, the address is
/// aligned for a Pack<S, N>; else it may be any.
template <int N, class T, class S>
__device__ void read_vector(const S* from, int64_t have, T (&values)[N], bool whole = true) {
  if (whole && have >= N) {
    const auto pack = *reinterpret_cast<const Pack<S, N>*>(from);
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = convert<T>(pack.at[j]);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = j < have ? convert<T>(from[j]) : T(0);
  }
}

/// Stores the first `have` of N neighbours; `whole` as in read_vector.
template <int N, class T, class S>
__device__ void write_vector(S* to, int64_t have, const T (&values)[N], bool whole = true) {
  if (whole && have >= N) {
    Pack<S, N> pack;
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = convert<S>(values[j]);
    *reinterpret_cast<Pack<S, N>*>(to) = pack;
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (j < have) to[j] = convert<S>(values[j]);
    }
  }
}

#endif

}  // namespace hero::cuda
