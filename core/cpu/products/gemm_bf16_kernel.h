#pragma once
// The kernels of gemm_bf16: copies of panels of the operands as pairs of elements of k, and the
// sums of a tile. Only gemm_*.cpp includes this.
#include <cstddef>
#include <cstdint>

#include <hero/core/kernels/half.h>

namespace hero::core::cpu::bf16 {

inline constexpr int kRows = 14;     // of a tile: 14 x 2 vectors of sums fill the registers
inline constexpr int kColumns = 32;  // of a tile

/// Packs lines (rows of A or columns of B) as to[p * width + i]: elements 2 p and 2 p + 1 of line i
/// as one word, the first in the lower half. Element p of line i lies at from[i * line + p * step].
/// There are `count` of `width` (kRows or kColumns) lines; the others, and what an odd k lacks, are
/// zeros. `to` has room for kPackSlack words more than width * pairs.
void pack_rows(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
               uint32_t* to);
void pack_columns(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                  uint32_t* to);
inline constexpr int64_t kPackSlack = 16;

/// Packs `count` rows of A that lie side by side (line 1) as pack_rows() would, in `panels` nearly
/// equal parts: lines [count * i / panels, count * (i + 1) / panels) at to + i * panel_size.
/// StepOffsets of lines that a part lacks hold anything.
void pack_panels(int64_t count, int64_t panels, int64_t k, const BFloat16* from, int64_t step,
                 uint32_t* to, int64_t panel_size);

/// Sixteen steps of sixteen lines, of the 32 that pack_columns() left at `from`, line by line: pair
/// p of line i at to[i * step + p].
void turn(const uint32_t* from, uint32_t* to, int64_t step);

/// Rows of A: as pack_rows() leaves them (step 0), or where they lie, one after the other element
/// of k, row i at data + i * step bytes.
struct RowPairs {
  const std::byte* data;
  int64_t step = 0;
};

/// Packs rows of A one after the other, row_words apart, each its pairs in order; what an odd k
/// lacks is a zero. row_words is a multiple of 16 for all steps, and all of it may be written, of
/// sixteen rows or of 32.
void pack_whole_rows(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                     uint32_t* to, int64_t row_words);

/// sums[i * kColumns + j] = or += the chain of `pairs` pairs of row i of a and column j of b, which
/// pack_columns() made. With 16 or fewer columns the upper half of a row of sums stays as it is.
void multiply(int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a, const uint32_t* b,
              float* sums, bool add);

/// A kernel that computes a tile of C, up to `rows` x kColumns, from rows of A and packed columns
/// of B.
struct TileKernel {
  int64_t rows;
  int64_t chain;    ///< elements of k for which multiply() is called at a time
  bool is_by_rows;  ///< rows are packed as by pack_whole_rows(), else as by pack_rows()
  void (*pack_rows)(int64_t count, int64_t k, const BFloat16* from, int64_t line, int64_t step,
                    uint32_t* to, int64_t row_words);
  /// As multiply(). `unit` says what the processor's unit of tiles is set up for, 0 at first; it is
  /// the caller's, who calls end() on the same thread after the last product.
  void (*multiply)(int64_t pairs, int64_t rows, int64_t columns, const RowPairs& a,
                   const uint32_t* b, float* sums, bool add, int64_t& unit);
  /// Gives the unit back.
  void (*end)(int64_t& unit) = [](int64_t&) {};
};
/// By the instruction of AVX512-BF16, or by those of 64-bit ARM, whose rows all have a step.
const TileKernel& dot_kernel();
/// By AMX, which adds to its sums themselves: they may be cut anywhere between multiples of 32
/// elements of k. All of its rows have a step. Needs what dot_kernel() needs, too.
const TileKernel& amx_kernel();
/// The kernel of level(), which is one of these two.
const TileKernel& native_kernel();
/// Whether convolutions in groups have kernels in the order of dot_kernel(), by which their groups
/// are computed all at once: those of x86-64.
inline constexpr bool kHasGroups =
#if defined(__x86_64__)
    true;
#else
    false;
#endif

/// The number of rows of A up to which transposing B in registers is faster than packing it.
inline constexpr int kFewRows = 8;

/// A few rows of A, element p of row i at a + i * a_rs + p, beside columns of B that lie one
/// element of k after the other, b_cs apart; a chain ends after `chain` elements. While a piece is
/// read that begins at b, lines of b + ahead are asked for, ahead_column elements from one to the
/// next and ahead_step more for each element of k.
struct FewRows {
  int64_t rows, k, chain;
  const BFloat16* a;
  int64_t a_rs, b_cs;
  int64_t ahead, ahead_column, ahead_step;
};

/// sums[i * kColumns + j] = the sums of row i and column j, whose elements begin at b + j * b_cs;
/// up to 16 columns, and 16 elements of each row of sums are written.
void multiply_few(const FewRows& p, int64_t columns, const BFloat16* b, float* sums);

}  // namespace hero::core::cpu::bf16
