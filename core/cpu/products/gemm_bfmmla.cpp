// Products of bfloat16 by BFMMLA and BFDOT of 64-bit ARM, regardless of the target of other files:
// functions with these instructions name their target, and are called only if the processor has it.
// [note: the bits of a product on ARM] describes the instructions: Arm, "Architecture Reference
// Manual for A-profile architecture", DDI 0487, BFMMLA, BFDOT, and their functions BFDotAdd and
// BFRound. BFMMLA adds two pairs, one after the other, as two BFDOT would.
#if defined(__aarch64__)
#include <algorithm>
#include <cstring>

#include <arm_neon.h>

#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>

namespace hero::core::cpu::bf16 {

namespace {

constexpr int kBlock = 8;  // rows, and columns: their sums and operands fill the registers
constexpr int kPairsAtOnce = 4;

uint64x2_t four_pairs(const std::byte* from) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
}

uint32x2_t one_pair(const std::byte* from) {
  uint32_t pair = 0;
  std::memcpy(&pair, from, sizeof(pair));
  return vdup_n_u32(pair);
}

// Up to eight rows and eight columns. Row i begins at row[i]; those beyond `rows` are the last one
// again. A vector of sums is rows i, i + 1 of columns j, j + 1.
template <int row_pairs>
[[gnu::target("arch=armv8.2-a+bf16")]] void multiply_block(int64_t pairs, int64_t rows,
                                                           const std::byte* const* row,
                                                           const uint32_t* b, float* sums,
                                                           bool add) {
  float32x4_t chains[row_pairs][kBlock / 2];
#pragma GCC unroll 4
  for (int i = 0; i < row_pairs; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kBlock / 2; ++j) chains[i][j] = vdupq_n_f32(0.0f);
  }
  int64_t p = 0;
  for (; p + kPairsAtOnce <= pairs; p += kPairsAtOnce) {
    // Of columns j, j + 1: pairs p, p + 1 of the one and of the other, then p + 2, p + 3.
    uint32x4_t first[kBlock / 2], second[kBlock / 2];
#pragma GCC unroll 2
    for (int j = 0; j < kBlock; j += 4) {
      const uint32_t* const at = b + p * kColumns + j;
      const uint32x4_t b0 = vld1q_u32(at), b1 = vld1q_u32(at + kColumns);
      const uint32x4_t b2 = vld1q_u32(at + 2 * kColumns), b3 = vld1q_u32(at + 3 * kColumns);
      first[j / 2] = vzip1q_u32(b0, b1);
      first[j / 2 + 1] = vzip2q_u32(b0, b1);
      second[j / 2] = vzip1q_u32(b2, b3);
      second[j / 2 + 1] = vzip2q_u32(b2, b3);
    }
#pragma GCC unroll 4
    for (int i = 0; i < row_pairs; ++i) {
      const uint64x2_t upper = four_pairs(row[2 * i] + 4 * p);
      const uint64x2_t lower = four_pairs(row[2 * i + 1] + 4 * p);
      const uint64x2_t a0 = vzip1q_u64(upper, lower), a1 = vzip2q_u64(upper, lower);
#pragma GCC unroll 4
      for (int j = 0; j < kBlock / 2; ++j) {
        chains[i][j] = vbfmmlaq_f32(chains[i][j], vreinterpretq_bf16_u64(a0),
                                    vreinterpretq_bf16_u32(first[j]));
        chains[i][j] = vbfmmlaq_f32(chains[i][j], vreinterpretq_bf16_u64(a1),
                                    vreinterpretq_bf16_u32(second[j]));
      }
    }
  }
  for (; p < pairs; ++p) {
    uint32x4_t columns[kBlock / 2];
#pragma GCC unroll 4
    for (int j = 0; j < kBlock / 2; ++j) {
      const uint32x2_t two = vld1_u32(b + p * kColumns + 2 * j);
      columns[j] = vcombine_u32(two, two);
    }
#pragma GCC unroll 4
    for (int i = 0; i < row_pairs; ++i) {
      const uint32x4_t both =
          vcombine_u32(one_pair(row[2 * i] + 4 * p), one_pair(row[2 * i + 1] + 4 * p));
#pragma GCC unroll 4
      for (int j = 0; j < kBlock / 2; ++j) {
        chains[i][j] = vbfdotq_f32(chains[i][j], vreinterpretq_bf16_u32(both),
                                   vreinterpretq_bf16_u32(columns[j]));
      }
    }
  }
  const auto put = [add](float* to, float32x4_t x) {
    vst1q_f32(to, add ? vaddq_f32(vld1q_f32(to), x) : x);
  };
#pragma GCC unroll 4
  for (int i = 0; i < row_pairs; ++i) {
    float* const upper = sums + 2 * i * kColumns;
#pragma GCC unroll 2
    for (int j = 0; j < kBlock; j += 4) {
      const float64x2_t left = vreinterpretq_f64_f32(chains[i][j / 2]);
      const float64x2_t right = vreinterpretq_f64_f32(chains[i][j / 2 + 1]);
      put(upper + j, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
      if (2 * i + 1 == rows) continue;
      put(upper + kColumns + j, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
    }
  }
}

void multiply_by_blocks(int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a,
                        const uint32_t* b, float* sums, bool add, int64_t&) {
  constexpr decltype(&multiply_block<1>) kBlocks[] = {multiply_block<1>, multiply_block<2>,
                                                      multiply_block<3>, multiply_block<4>};
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t here = std::min<int64_t>(kBlock, rows - first);
    const std::byte* row[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) row[i] = a.data + (first + std::min(i, here - 1)) * a.step;
    float* const to = sums + first * kColumns;
    for (int64_t j = 0; j < columns; j += kBlock)
      kBlocks[(here - 1) / 2](pairs, here, row, b + j, to + j, add);
  }
}

}  // namespace

const TileKernel& dot_kernel() {
  static constexpr TileKernel kernel{.rows = 2 * kBlock,
                                     .chain = kBf16Chain,
                                     .is_by_rows = true,
                                     .pack_rows = pack_whole_rows,
                                     .multiply = multiply_by_blocks};
  return kernel;
}

}  // namespace hero::core::cpu::bf16
#endif
