#pragma once
// What the families of products do with halves, and with bfloat16 where native_half_products() is
// true. Operands are as in core/backend.h.
#include <algorithm>

#include <hero/core/backend.h>
#include <hero/core/half_products.h>

namespace hero::core::cpu {

/// Whether products of this dtype go through float32 arrays.
inline bool are_widened(DType dtype) {
  return is_half(dtype) && !(dtype == kBFloat16 && native_half_products());
}
/// Of a batch of such products how many are converted at a time: about 4 MiB of float32.
inline int64_t widened_at_once(const Array& a, const Array& b, const Array& out) {
  constexpr int64_t kElements = 1 << 20;
  const int64_t each = out.size(1) * out.size(2) + a.size(1) * a.size(2) + b.size(1) * b.size(2);
  return std::min(out.size(0), std::max<int64_t>(1, kElements / std::max<int64_t>(1, each)));
}

/// Backend::matmul, out not empty; out is bfloat16 or float32.
void bf16_products(const Array& a, const Array& b, const Array& out);
/// Backend::pack_matrix and Backend::matmul_packed, out not empty.
PackedMatrix bf16_packed(const Array& b);
void bf16_packed_product(const Array& a, const PackedMatrix& b, const Array& out);
/// Backend::linear, out not empty.
void bf16_linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                 const Array& out, const Array* z);
/// Sets g_x where it is defined. The gradient of an activation's output is rounded before it goes
/// on to u, as it is where the two are operations of their own.
void bf16_input_backward(const LinearBack& back);
/// Backend::attention and its backward, out not empty. Probabilities enter their product as two
/// halves each, their rounding and what it leaves, so that the result is rounded once; those of
/// backward, and the gradients of scores, are rounded.
void bf16_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out, const Array& log_sum);
void bf16_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                             const Array& k, const Array& v, const Array& out, const Array& log_sum,
                             const Array& g_q, const Array& g_k, const Array& g_v);

}  // namespace hero::core::cpu
