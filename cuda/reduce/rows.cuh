#pragma once
// Rows that are kept in the registers of their threads. All packs of a row are loaded before the
// first one is used or stored, so that the accesses overlap.
#include <hero/cuda/reduce/block.cuh>

namespace hero::cuda {

/// The threads that share a row: 2^k <= 32 neighbours, or a whole block of several warps.
struct RowTeam {
  int width;
  __device__ int rank() const {
    const int thread = static_cast<int>(threadIdx.x);
    return width > kWarp ? thread : thread & (width - 1);
  }
  /// The position of this team among all of the grid.
  __device__ int64_t index() const {
    const auto threads = static_cast<unsigned>(width);
    return int64_t{blockIdx.x} * (blockDim.x / threads) + threadIdx.x / threads;
  }
  /// The number of teams of the grid.
  __device__ int64_t count() const {
    return int64_t{gridDim.x} * (blockDim.x / static_cast<unsigned>(width));
  }
  /// Every thread of the block calls it and gets the result; `none` is the neutral element of
  /// `join`. `turn` alternates between 0 and 1 from call to call, so that one barrier is enough.
  template <class T, class Join>
  __device__ T reduce(T value, Join join, T none, int turn) const {
    __shared__ T parts[2][kWarp];
    value = warp_reduce(value, join, width < kWarp ? width : kWarp);
    if (width <= kWarp) return value;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
    if (lane == 0) parts[turn][thread / kWarp] = value;
    __syncthreads();
    return warp_reduce(lane < width / kWarp ? parts[turn][lane] : none, join);
  }
};

/// The largest number of packs of a row in a thread: 32 elements, 16 of float64.
template <class E>
inline constexpr int kMostPacks = sizeof(E) == 2 ? 4 : 8;
/// The largest number of threads of a block that has one row.
inline constexpr int kMostRowThreads = 512;

/// How rows are distributed: packs of a row in a thread (0: a row does not fit registers), and the
/// team.
struct RowPlan {
  int held;
  RowTeam team;
  dim3 threads() const {
    return dim3(static_cast<unsigned>(team.width > kWarp ? team.width : kThreads));
  }
  dim3 blocks(int64_t rows) const {
    return blocks_for(rows, team.width > kWarp ? 1 : kThreads / team.width);
  }
};
/// A warp for each row if its registers suffice, else a block. held is 1, 2, 3, 4, 6, 8 or 0.
template <class E>
RowPlan plan_row(int64_t n) {
  const auto over = [](int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); };
  const int packs = over(n, kRowPack<E>), most = kMostPacks<E>;
  if (packs <= kWarp) return {1, {team_width<E>(n, 1, kWarp)}};
  if (packs <= most * kWarp) {
    const int held = over(packs, kWarp);
    return {held > 4 ? held + held % 2 : held, {kWarp}};
  }
  if (packs > most * kMostRowThreads) return {0, {1024}};
  return {most, {over(over(packs, most), kWarp) * kWarp}};
}
/// Calls body<held, threads> with the plan's packs and a bound of its threads; held is not 0.
template <class E, class Body>
auto dispatch_held(const RowPlan& plan, Body&& body) {
  constexpr int kMost = kMostPacks<E>;
  if (plan.team.width > kWarp) return body.template operator()<kMost, kMostRowThreads>();
  switch (plan.held) {
    case 1:
      return body.template operator()<1, kThreads>();
    case 2:
      return body.template operator()<2, kThreads>();
    case 3:
      return body.template operator()<3, kThreads>();
    case 6:
      return body.template operator() < kMost == 8 ? 6 : kMost, kThreads > ();
    case 8:
      return body.template operator()<kMost, kThreads>();
    default:
      return body.template operator()<4, kThreads>();
  }
}

/// Packs at, at + step, ... of a row with n elements; those behind its end are `none`. `whole` as
/// in load_pack.
template <int kHeld, class E>
__device__ void load_packs(RowPack<E> (&packs)[kHeld], const E* row, int64_t at, int64_t step,
                           int64_t n, bool whole, E none = E()) {
  RowPack<E> empty;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) empty.value[j] = none;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t first = at + k * step;
    packs[k] = whole && first + kRowPack<E> <= n ? *reinterpret_cast<const RowPack<E>*>(row + first)
                                                 : empty;
  }
  if (whole && n % kRowPack<E> == 0) return;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t first = at + k * step;
    if (!whole || first + kRowPack < E >> n) packs[k] = load_pack(row, first, n, false, none);
  }
}

}  // namespace hero::cuda
