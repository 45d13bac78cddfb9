#pragma once
// Transposing a row-major matrix. Only sources of core/cpu/products include this.
#include <hero/core/cpu/products/gemm_pack.h>

namespace hero::core::cpu {

/// to[j * to_step + i] = from[i * from_step + j].
template <class T>
void transpose(int64_t rows, int64_t columns, const T* from, int64_t from_step, T* to,
               int64_t to_step) {
  constexpr int64_t lanes = micro::kLanes<T>;
  int64_t i = 0;
  for (; i + lanes <= rows; i += lanes) {
    micro::transpose_lanes(lanes, columns, from + i * from_step, from_step, to + i, to_step);
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
  }
}

}  // namespace hero::core::cpu
