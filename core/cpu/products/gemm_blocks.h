#pragma once
// How products are cut along k; see [note: the bits of a product] in gemm.h.
#include <algorithm>
#include <cstdint>
#include <utility>

#include <unistd.h>

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

/// kTileRows for the second-level cache of this machine, of up to 2 MiB: the more rows of A are in
/// a tile, the less often B is packed.
inline int64_t tile_rows() {
  static const int64_t rows = [] {
    int64_t bytes = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    if (bytes <= 0) bytes = 1 << 20;  // the system does not know
    return kTileRows * std::clamp<int64_t>(bytes, 1 << 18, 1 << 21) >> 20;
  }();
  return rows;
}

}  // namespace hero::core::cpu
