#pragma once
// Reductions within warps and blocks, and rows of memory read in packs of 16 bytes. Every tree here
// is fixed by the number of threads: the same input gives the same bits.
#include <bit>
#include <type_traits>

#include <hero/core/dtype.h>
#include <hero/core/math.h>
#include <hero/cuda/launch.cuh>

namespace hero::cuda {

/// The type that an element type is computed in: halves in float, bools as bytes 0 and 1.
template <class E>
using Compute = std::conditional_t<std::is_same_v<E, Float16> || std::is_same_v<E, BFloat16>, float,
                                   std::conditional_t<std::is_same_v<E, bool>, uint8_t, E>>;

/// \name Packs: what a thread reads or writes at once, 16 bytes (8 of the smallest types).
/// \{
template <class E>
inline constexpr int kPack = sizeof(E) == 1 ? 8 : 16 / static_cast<int>(sizeof(E));

template <class E>
struct alignas(kPack<E> * sizeof(E)) Pack {
  E value[kPack<E>];
};

/// Whether every row that begins a multiple of `stride` elements after `first` can be read in
/// packs.
template <class E>
bool packs_fit(const void* first, int64_t stride) {
  return reinterpret_cast<uintptr_t>(first) % sizeof(Pack<E>) == 0 && stride % kPack<E> == 0;
}

/// Elements at, at + 1, ... of a row with n; those behind its end are `none`. `whole`: the row fits
/// packs; else the same elements are read one by one, so that sums do not depend on it.
template <class E>
__device__ Pack<E> load_pack(const E* row, int64_t at, int64_t n, bool whole, E none = E()) {
  if (whole && at + kPack<E> <= n) return *reinterpret_cast<const Pack<E>*>(row + at);
  Pack<E> pack;
#pragma unroll
  for (int j = 0; j < kPack<E>; ++j) pack.value[j] = at + j < n ? row[at + j] : none;
  return pack;
}

template <class E>
__device__ void store_pack(const Pack<E>& pack, E* row, int64_t at, int64_t n, bool whole) {
  if (whole && at + kPack<E> <= n) {
    *reinterpret_cast<Pack<E>*>(row + at) = pack;
    return;
  }
#pragma unroll
  for (int j = 0; j < kPack<E>; ++j) {
    if (at + j < n) row[at + j] = pack.value[j];
  }
}
/// \}

/// \name Joining the values of several threads.
/// `join` must commute: then all of the threads get the same bits.
/// \{
template <class T>
__device__ T lane_xor(T value, int by) {
  if constexpr (!std::is_arithmetic_v<T>) {
    struct Words {
      unsigned word[sizeof(T) / 4];
    };
    Words words = std::bit_cast<Words>(value);
    for (unsigned& word : words.word) word = __shfl_xor_sync(kAllLanes, word, by);
    return std::bit_cast<T>(words);
  } else if constexpr (sizeof(T) < 4) {
    return static_cast<T>(__shfl_xor_sync(kAllLanes, static_cast<int>(value), by));
  } else {
    return __shfl_xor_sync(kAllLanes, value, by);
  }
}

/// Over groups of `width` lanes, a power of two; every lane of the warp comes and gets the result.
template <class T, class Join>
__device__ T warp_reduce(T value, Join join, int width = kWarp) {
  for (int by = width / 2; by > 0; by /= 2) value = join(value, lane_xor(value, by));
  return value;
}

/// Over a block along x of 2^k >= 32 threads; every thread comes and gets the result.
template <class T, class Join>
__device__ T block_reduce(T value, Join join) {
  __shared__ T parts[kWarp];
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, join);
  __syncthreads();  // the parts of the call before have been read
  if (thread % kWarp == 0) parts[thread / kWarp] = value;
  __syncthreads();
  return warp_reduce(parts[thread & (warps - 1)], join, warps);
}

struct SumJoin {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// Loses NaN.
struct MaxJoin {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// Two sums at once.
template <class T>
struct TwoSums {
  T first, second;
};
struct TwoSumsJoin {
  template <class T>
  __device__ TwoSums<T> operator()(const TwoSums<T>& a, const TwoSums<T>& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};
/// \}

/// The threads that share a row: 2^k <= 32 neighbours, so that a warp has one or more rows, or a
/// whole block.
struct Team {
  int width;
  __device__ int rank() const { return static_cast<int>(threadIdx.x) & (width - 1); }
  /// The position of this team among all of the grid, along x.
  __device__ int64_t index() const { return global_thread() / width; }
  /// Every thread of the block comes, with a row or without.
  template <class T, class Join>
  __device__ T reduce(T value, Join join) const {
    return width <= kWarp ? warp_reduce(value, join, width) : block_reduce(value, join);
  }
};

/// Threads for a row of n elements of which one thread takes `packs` packs at least: a power of
/// two.
template <class E>
int team_width(int64_t n, int64_t packs, int most) {
  int width = 1;
  while (width < most && width * packs * kPack<E> < n) width *= 2;
  return width;
}
/// Threads of a block of such teams, and blocks for `rows` of them.
inline int team_threads(int width) { return width > kWarp ? width : kThreads; }
inline dim3 team_blocks(int64_t rows, int width) {
  return blocks_for(rows, team_threads(width) / width);
}

/// e^x to 2^-21 for the |x| that matter in a sum of exponentials of halves; results below 2^-126
/// are 0.
__device__ inline float quick_exp(float x) {
#if defined(HERO_CUSIM)
  return std::exp2(x * 1.44269504f);
#else
  return __expf(x);
#endif
}

/// e^x for elements of type E: as exact as the functors' for floats, quick for halves.
template <class E>
__device__ Compute<E> exp_of(Compute<E> x) {
  if constexpr (sizeof(E) == 2) {
    return quick_exp(x);
  } else {
    return math::exp(x);
  }
}

}  // namespace hero::cuda
