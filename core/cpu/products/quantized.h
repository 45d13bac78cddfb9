#pragma once
// Products with matrices in blocks of GGUF, compiled for each level (core/cpu/kernels.h).
#include <cstddef>
#include <cstdint>

#include <hero/core/io/gguf_blocks.h>

namespace hero::core::cpu {

/// y [m, n] = x [m, k] w^T, whose sums core/quantized.h defines. All are
/// row-major without gaps; a row of w is k / type.elements blocks.
struct QuantizedProduct {
  const gguf::BlockType& type;
  int64_t m, n, k;
  const float* x;
  const std::byte* w;
  float* y;
};
void quantized_product(const QuantizedProduct& product);

}  // namespace hero::core::cpu
