#pragma once
// Operands of products of bfloat16, in every layout that a product takes.
#include <random>

#include "core/products/strided_matrix.h"

#include <hero/core/cpu/products/gemm_bf16.h>

namespace hero_test {

using HalfMatrix = StridedMatrix<hero::BFloat16>;

inline hero::core::cpu::Bf16Matrix view(const HalfMatrix& x) { return {x.data(), x.rs, x.cs}; }

inline constexpr Order kOrders[] = {Order::rows,    Order::columns,  Order::padded_rows,
                                    Order::general, Order::backward, Order::repeated};

template <class Draw>
HalfMatrix make(int64_t rows, int64_t columns, Order order, Draw&& draw) {
  hero::BFloat16 gap;
  gap.bits = 0x7FC0;
  return make_strided(rows, columns, order, gap, draw);
}

inline auto uniform(std::mt19937& random) {
  return [&random] {
    return hero::BFloat16(std::uniform_real_distribution<float>(-1.0f, 1.0f)(random));
  };
}

}  // namespace hero_test
