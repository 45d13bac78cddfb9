#pragma once
// Helpers of attention's tensor-core kernels: tiles of half-precision numbers in shared memory, and
// their products. A block has four warps, and each warp kRows * 16 rows of the block's resident
// tile.
#include <hero/cuda/nn/attention.cuh>
#include <hero/cuda/nn/mma.cuh>

namespace hero::cuda {

inline constexpr int kMmaThreads = 128;
inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// Rows of kHead halves in shared memory. Chunks of 8 halves change places within a row, so that
/// the same chunk of 8 neighbouring rows lies in different banks.
template <class T, int kHead>
struct Tile {
  T* data;

  static constexpr uint32_t kRow = 2 * kHead;  // bytes

  __device__ T* at(int row, int chunk) const {
    return data + row * kHead + (chunk ^ (row & 7)) * 8;
  }
  /// Begins to copy rows [first, first + kCount) of m; rows beyond its end become zeros.
  template <int kCount>
  __device__ void load(const Matrix<const T>& m, int first) const {
    constexpr int kChunks = kHead / 8, kAtOnce = kMmaThreads / kChunks;  // rows
    static_assert(kCount % kAtOnce == 0 && kAtOnce % 8 == 0);
    const int row = static_cast<int>(threadIdx.x) / kChunks;
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    const int left = 8 * chunk < m.columns ? m.rows - first - row : 0;
    const T* from = m.data + (first + row) * m.row + 8 * chunk;
    T* const to = at(row, chunk);
#pragma unroll
    for (int i = 0; i < kCount; i += kAtOnce) {
      copy_async<16>(to + i * kHead, i < left ? from : m.data, i >= left);
      from += kAtOnce * m.row;
    }
  }

  // Where a lane's row of a fragment begins, for the first 16 columns. Of columns [16 * k, ..) it
  // is this with 32 * k xored, since chunks change places by xor with the row.
  __device__ static uint32_t place_of_a(int row) {
    const uint32_t lane = threadIdx.x % kWarp;
    return (static_cast<uint32_t>(row) + lane % 16) * kRow + ((lane / 16) ^ (lane % 8)) * 16;
  }
  __device__ static uint32_t place_of_b() {
    const uint32_t lane = threadIdx.x % kWarp;
    return (lane / 16 * 8 + lane % 8) * kRow + ((lane / 8 % 2) ^ (lane % 8)) * 16;
  }
  /// The A fragment of rows [row + 16 * m, ..) and columns [16 * k, ..); row is a multiple of 16.
  __device__ void a_fragment(uint32_t (&to)[4], int row, int m, int k) const {
    load_matrices(
        to, data,
        (place_of_a(row) ^ static_cast<uint32_t>(32 * k)) + static_cast<uint32_t>(16 * m) * kRow);
  }
  /// Of this tile's transpose, the B fragments of columns [8 * n, ..), in registers 0 and 1, and
  /// the next 8, in 2 and 3, for rows [16 * k, ..).
  __device__ void b_fragments(uint32_t (&to)[4], int n, int k) const {
    load_matrices(
        to, data,
        (place_of_b() ^ static_cast<uint32_t>(32 * k)) + static_cast<uint32_t>(8 * n) * kRow);
  }
  /// Of this tile, the B fragments of columns [16 * n, ..) and the next 8, for rows [16 * k, ..).
  __device__ void b_fragments_turned(uint32_t (&to)[4], int k, int n) const {
    load_matrices_turned(
        to, data,
        (place_of_a(0) ^ static_cast<uint32_t>(32 * n)) + static_cast<uint32_t>(16 * k) * kRow);
  }
};

/// Sums of kRows * 16 rows and kColumns * 8 columns, spread over a warp: element [m][n][i] of a
/// lane is that of row 16 * m + lane / 4 + 8 * (i / 2), column 8 * n + 2 * (lane % 4) + i % 2.
template <int kRows, int kColumns>
using Sums = float[kRows][kColumns][4];

template <int kRows, int kColumns>
__device__ inline void clear(Sums<kRows, kColumns>& sums) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
    }
  }
}

/// sums += a b^T over 16 columns of both: a is fragments of them, b rows [0, 8 * kColumns) of a
/// tile, columns [16 * k, ..).
template <class T, int kHead, int kRows, int kColumns>
__device__ inline void add_step(Sums<kRows, kColumns>& sums, const uint32_t (&a)[kRows][4],
                                const Tile<T, kHead>& b, int k) {
#pragma unroll
  for (int n = 0; n < kColumns; n += 2) {
    uint32_t fragments[4];
    b.b_fragments(fragments, n, k);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      mma_16x8x16<T>(sums[m][n], a[m], fragments[0], fragments[1]);
      mma_16x8x16<T>(sums[m][n + 1], a[m], fragments[2], fragments[3]);
    }
  }
}

/// sums = a b^T: a is rows [row, ..) of its tile.
template <class T, int kHead, int kRows, int kColumns>
__device__ inline void multiply(Sums<kRows, kColumns>& sums, const Tile<T, kHead>& a, int row,
                                const Tile<T, kHead>& b) {
  clear<kRows, kColumns>(sums);
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    uint32_t fragments[kRows][4];
#pragma unroll
    for (int m = 0; m < kRows; ++m) a.a_fragment(fragments[m], row, m, k);
    add_step<T, kHead, kRows, kColumns>(sums, fragments, b, k);
  }
}

/// sums += p b: p, rounded to halves, has as many columns as b has rows. A lane's sums of two
/// neighbouring groups of 8 columns are just its A fragment of those 16.
template <class T, int kHead, int kRows, int kColumns>
__device__ inline void add_product(Sums<kRows, kHead / 8>& sums, const Sums<kRows, kColumns>& p,
                                   const Tile<T, kHead>& b) {
#pragma unroll
  for (int k = 0; k < kColumns / 2; ++k) {
    uint32_t a[kRows][4];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = p[m][2 * k + i / 2];
        a[m][i] = pack_halves<T>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < kHead / 16; ++n) {
      uint32_t fragments[4];
      b.b_fragments_turned(fragments, k, n);
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma_16x8x16<T>(sums[m][2 * n], a[m], fragments[0], fragments[1]);
        mma_16x8x16<T>(sums[m][2 * n + 1], a[m], fragments[2], fragments[3]);
      }
    }
  }
}

/// Writes a warp's sums as rows [first + row, ..) of m, by way of rows [row, ..) of a tile that no
/// other warp reads, so that 16 bytes are written at a time.
template <class T, int kHead, int kRows>
__device__ inline void store(const Sums<kRows, kHead / 8>& sums, const Tile<T, kHead>& by, int row,
                             const Matrix<T>& m, int first) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      const float(&pair)[4] = sums[i / 2][n];
      *reinterpret_cast<uint32_t*>(by.at(row + 8 * i + lane / 4, n) + 2 * (lane % 4)) =
          pack_halves<T>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
  }
  __syncwarp();
  constexpr int kChunks = kHead / 8;
#pragma unroll 4
  for (int i = lane; i < 16 * kRows * kChunks; i += kWarp) {
    const int at = row + i / kChunks, chunk = i % kChunks;
    if (first + at >= m.rows || 8 * chunk >= m.columns) continue;
    *reinterpret_cast<uint4*>(m.data + (first + at) * m.row + 8 * chunk) =
        *reinterpret_cast<const uint4*>(by.at(at, chunk));
  }
}

/// The bytes of `rows` rows in tiles.
template <int kHead>
constexpr size_t tile_bytes(int rows) {
  return sizeof(BFloat16) * kHead * static_cast<size_t>(rows);
}

/// True if every tile's pairs must be handled one by one: there is a mask or a bias, or a scale
/// that does not keep the order of scores.
inline bool needs_each_pair(const core::AttentionScores& scores) {
  return scores.mask != nullptr || scores.bias != nullptr || !(scores.scale > 0.0);
}

/// The variant of the kernels: element type T, heads of at most kHead, and whether each pair is
/// handled by itself.
template <class T, int kHead, bool kEach>
struct MmaChoice {};

/// Calls body(MmaChoice<..>{}).
template <class Body>
void choose_mma(const core::AttentionScores& scores, const Array& q, const Array& v, Body&& body) {
  const bool each = needs_each_pair(scores);
  const auto of = [&]<class T>(TypeTag<T>) {
    if (std::max(q.shape()[3], v.shape()[3]) > 64) {
      each ? body(MmaChoice<T, 128, true>()) : body(MmaChoice<T, 128, false>());
    } else {
      each ? body(MmaChoice<T, 64, true>()) : body(MmaChoice<T, 64, false>());
    }
  };
  if (q.dtype() == kBFloat16) return of(TypeTag<BFloat16>());
  of(TypeTag<Float16>());
}

/// \name The kernels for halves in rows of aligned groups of 8, heads of at most 128.
/// \{
void mma_attention(const core::AttentionScores& scores, const Array& q, const Array& k,
                   const Array& v, const Array& out, const Array& log_sum);
void mma_attention_backward(const core::AttentionScores& scores, const Array& g, const Array& q,
                            const Array& k, const Array& v, const Array& log_sum,
                            const Array& along, const Array& g_q, const Array& g_k,
                            const Array& g_v);
/// \}

}  // namespace hero::cuda
