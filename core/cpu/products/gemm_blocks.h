#pragma once
// How products are divided: along k, see [note: the bits of a product] in gemm.h, and into tiles.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace hero::core::cpu {

inline constexpr int64_t kDepth = 256;     // steps of k in a block, at most
inline constexpr int64_t kTileRows = 420;  // of A in the cache: 420 x 256 floats are 0.4 of 1 MiB

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

/// The length of the blocks of k: equal ones, so that no short one wastes the start and end of the
/// kernel.
inline int64_t block_length(int64_t k) {
  const int64_t equal = ceil_div(k, ceil_div(k, kDepth));
  return std::min(k, round_up(equal, 16));
}

/// [first, last) of the i-th of `parts` nearly equal parts of n.
inline std::pair<int64_t, int64_t> part_of(int64_t n, int64_t parts, int64_t i) {
  return {n * i / parts, n * (i + 1) / parts};
}

inline constexpr int64_t kPackingCost = 6;  // rows or columns; see [note: how a product is cut]

struct Grid {
  int64_t rows, columns;  // number of tiles
};

/// The grid of tiles, of panels of `width` columns, with the least time: that of the largest tile,
/// packing included, times the number of tiles for one thread. It may depend on the number of
/// threads because the bits do not depend on it.
inline Grid choose_grid(int64_t m, int64_t n, int64_t k, int64_t width, int64_t threads) {
  // Short blocks of k leave room for more rows.
  const int64_t row_tiles = ceil_div(m, kTileRows * kDepth / block_length(k));
  const int64_t panels = ceil_div(n, width);
  Grid best{row_tiles, 1};
  int64_t best_cost = INT64_MAX;
  for (int64_t columns = 1; columns <= std::min(threads, panels); ++columns) {
    const int64_t multiple = threads / std::gcd(threads, columns);
    for (const int64_t rows : {row_tiles, round_up(row_tiles, multiple)}) {
      if (rows > m) continue;
      const int64_t height = ceil_div(m, rows), across = ceil_div(panels, columns) * width;
      const int64_t cost =
          ceil_div(rows * columns, threads) * (height * across + kPackingCost * (height + across));
      if (cost < best_cost) {
        best_cost = cost;
        best = {rows, columns};
      }
    }
  }
  return best;
}

}  // namespace hero::core::cpu
