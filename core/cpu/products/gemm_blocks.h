#pragma once
// How products are cut along k; see [note: the bits of a product] in gemm.h.
#include <algorithm>
#include <cstdint>
#include <utility>

namespace hero::core::cpu {

inline constexpr int64_t kDepth = 256;     // steps of k in a block, at most
inline constexpr int64_t kTileRows = 420;  // of A in the cache: 420 x 256 floats are 0.4 of 1 MiB

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

/// The length of the blocks of k: equal ones, so that no short one wastes the start and end of the
/// kernel.
inline int64_t block_length(int64_t k) {
  return std::min(k, round_up(ceil_div(k, ceil_div(k, kDepth)), 16));
}

/// [first, last) of the i-th of `parts` nearly equal parts of n.
inline std::pair<int64_t, int64_t> part_of(int64_t n, int64_t parts, int64_t i) {
  return {n * i / parts, n * (i + 1) / parts};
}

}  // namespace hero::core::cpu
