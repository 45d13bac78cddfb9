#pragma once
// Reductions within warps and blocks, and rows of memory read in packs of 16 bytes. Every tree here
// is fixed by the number of threads: the same input gives the same bits.
#include <bit>
#include <limits>
#include <type_traits>

#include <hero/core/dtype.h>
#include <hero/core/kernels/math.h>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

/// \name Packs: what a thread reads or writes at once, 16 bytes (8 of the smallest types).
/// \{
template <class E>
inline constexpr int kRowPack = sizeof(E) == 1 ? 8 : 16 / static_cast<int>(sizeof(E));

template <class E>
struct alignas(kRowPack<E> * sizeof(E)) RowPack {
  E value[kRowPack<E>];
};

/// Whether every row that begins a multiple of `stride` elements after `first` can be read in
/// packs.
template <class E>
bool packs_fit(const void* first, int64_t stride) {
  return reinterpret_cast<uintptr_t>(first) % sizeof(RowPack<E>) == 0 && stride % kRowPack<E> == 0;
}

/// Elements at, at + 1, ... of a row with n elements; those behind its end are `none`. `whole`: the
/// row can be read in packs; else the same elements are read one by one, so that sums do not depend
/// on it.
template <class E>
__device__ RowPack<E> load_pack(const E* row, int64_t at, int64_t n, bool whole, E none = E()) {
  if (whole && at + kRowPack<E> <= n) return *reinterpret_cast<const RowPack<E>*>(row + at);
  RowPack<E> pack;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) pack.value[j] = at + j < n ? row[at + j] : none;
  return pack;
}

template <class E>
__device__ void store_pack(const RowPack<E>& pack, E* row, int64_t at, int64_t n, bool whole) {
  if (whole && at + kRowPack<E> <= n) {
    *reinterpret_cast<RowPack<E>*>(row + at) = pack;
    return;
  }
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
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

/// Over groups of `width` lanes, a power of two; every lane of the warp calls it and gets the
/// result.
template <class T, class Join>
__device__ T warp_reduce(T value, Join join, int width = kWarp) {
  for (int by = width / 2; by > 0; by /= 2) value = join(value, lane_xor(value, by));
  return value;
}

/// Over a block along x of 2^k >= 32 threads; every thread calls it and gets the result.
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
/// The larger of two numbers; a NaN is lost.
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
  /// Every thread of the block calls it, with a row or without.
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
  while (width < most && width * packs * kRowPack<E> < n) width *= 2;
  return width;
}
/// The number of threads of a block of such teams, and the number of blocks for `rows` rows.
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
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
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

/// Several elements of a sum of exponentials: the largest, and the sum of e^(x - largest) of all,
/// of type E. {-infinity, 0} is none. A NaN or +infinity among them makes the sum NaN.
template <class E>
struct MaxSum {
  Compute<E> top, sum;
};
template <class E>
__device__ MaxSum<E> no_terms() {
  return {-std::numeric_limits<Compute<E>>::infinity(), Compute<E>(0)};
}
template <class E>
struct MaxSumJoin {
  __device__ MaxSum<E> operator()(const MaxSum<E>& a, const MaxSum<E>& b) const {
    const Compute<E> top = a.top > b.top ? a.top : b.top, shift = finite_shift(top);
    return {top, a.sum * exp_of<E>(a.top - shift) + b.sum * exp_of<E>(b.top - shift)};
  }
  /// What is subtracted from elements of which `top` is the largest: e^(-inf - 0) is 0, while
  /// -inf - -inf would be NaN.
  __device__ static Compute<E> finite_shift(Compute<E> top) {
    return top == -std::numeric_limits<Compute<E>>::infinity() ? Compute<E>(0) : top;
  }
};
/// The larger of two numbers; if one is NaN, the other.
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }

/// Adds `count` elements.
template <class E, int kCount>
__device__ void add_terms(MaxSum<E>& running, const Compute<E> (&x)[kCount]) {
  Compute<E> top = running.top;
#pragma unroll
  for (int j = 0; j < kCount; ++j) top = larger(top, x[j]);
  const Compute<E> shift = MaxSumJoin<E>::finite_shift(top);
  Compute<E> sum = running.sum * exp_of<E>(running.top - shift);
#pragma unroll
  for (int j = 0; j < kCount; ++j) sum += exp_of<E>(x[j] - shift);
  running = {top, sum};
}

}  // namespace hero::cuda
