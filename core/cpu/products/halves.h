#pragma once
// What the families of products do with halves: the processor's instruction multiplies bfloat16
// where native_half_products() is true, and gemm_halves() the others. Operands are as in
// core/device/backend.h.
#include <hero/core/device/backend.h>

namespace hero::core::cpu {

/// call::Matmul, out not empty; out is of the operands' dtype or float32.
void products_of_halves(const Array& a, const Array& b, const Array& out);
/// call::PackMatrix and call::MatmulPacked, out not empty.
PackedMatrix half_packed(const Array& b);
void half_packed_product(const Array& a, const PackedMatrix& b, const Array& out);
/// call::Linear, out not empty.
void half_linear(const call::Linear& call);
/// Sets g_x if it is defined. The gradient of an activation's output is rounded before the gradient
/// of u is computed from it, as if the two were separate operations.
void half_input_backward(const call::LinearBack& back);
/// call::Attention and its backward, out not empty. Probabilities enter their product as two
/// halves each, their rounding and what it leaves, so that the result is rounded once; those of
/// backward, and the gradients of scores, are rounded.
void bf16_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out, const Array& log_sum);
void bf16_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                             const Array& k, const Array& v, const Array& out, const Array& log_sum,
                             const Array& g_q, const Array& g_k, const Array& g_v);

}  // namespace hero::core::cpu
