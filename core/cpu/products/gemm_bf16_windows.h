#pragma once
// Products of bfloat16 of which an operand or the result is not contiguous, as the windows of a
// convolution and the positions of its output. Only core/cpu/nn/convolve*.cpp includes this.
#include <cstdint>
#include <vector>

#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/products/gemm_shifted.h>

namespace hero::core::cpu::bf16 {

/// Vectors of sixteen columns.
using WindowPanel = ShiftedPanel<kColumns, 16>;

/// As pack_columns(), of the panel's columns: element p of the one at offset 0 is from[steps[p]].
/// Sixteen elements behind the last one of a column may be read.
void pack_windows(const WindowPanel& panel, const int64_t* steps, int64_t length,
                  const BFloat16* from, uint32_t* to);

/// Elements of a row of windows that lie side by side, and where they go. An offset below zero
/// stands for one zero.
struct HalfRun {
  int64_t place, offset, count;
};
/// to[place - first + i] = from[offset + i] for the runs, in order. Up to 31 elements behind a run
/// are read, and written before the next one is.
void copy_runs(const HalfRun* begin, const HalfRun* end, int64_t first, const BFloat16* from,
               BFloat16* to);

/// to[offset + i] = from[place + i] for the panel's places in C; from has room for 32 elements
/// more.
void store_places(const WindowPanel& panel, const BFloat16* from, BFloat16* to);

/// to[j * step + i] = sums[i * kColumns + j], rounded. Rows up to the next multiple of 16 are read.
void store_turned(int64_t rows, int64_t columns, const float* sums, BFloat16* to, int64_t step);

}  // namespace hero::core::cpu::bf16
