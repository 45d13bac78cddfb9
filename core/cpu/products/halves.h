#pragma once
// The products of half precision: by conversion to float32 or, for bfloat16 if
// native_half_products() is true, by the machine's instruction. Operands are as in
// core/device/calls.h.
#include <algorithm>

#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/half_products.h>

namespace hero::core::cpu {

/// Whether operands of products of this dtype are converted to float32 arrays.
inline bool are_widened(DType dtype) {
  return is_half(dtype) && !(dtype == kBFloat16 && native_half_products());
}
/// The number of products of a batch that are converted at a time: about 4 MiB of float32.
inline int64_t widened_at_once(const Array& a, const Array& b, const Array& out) {
  constexpr int64_t kElements = 1 << 20;
  const int64_t each = out.size(1) * out.size(2) + a.size(1) * a.size(2) + b.size(1) * b.size(2);
  return std::min(out.size(0), std::max<int64_t>(1, kElements / std::max<int64_t>(1, each)));
}

/// Elements of a large operand that are converted to float32 at a time: 16 MiB.
inline constexpr int64_t kWideElements = 1 << 22;

/// The blocks in which a product of matrices a [m, k] and b [k, n] with more elements than that is
/// converted: numbers of rows of a, columns of b, and steps of k, of at most kWideElements elements
/// each; those of the larger operand are long pieces of memory. k is cut where the product adds
/// partial results, see [note: the bits of a product] in gemm.h.
struct WideBlocks {
  int64_t rows, columns, steps;

  WideBlocks(const Array& a, const Array& b) {
    constexpr int64_t kSide = 256;  // rows or columns whose work is much beside the conversion
    const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
    const bool of_b = b.numel() >= a.numel();
    const bool cuts_steps =
        of_b ? b.strides()[0] > b.strides()[1] : a.strides()[0] < a.strides()[1];
    const int64_t side = cuts_steps ? (of_b ? n : m) : std::min(kSide, std::max(m, n));
    const int64_t most = kWideElements / std::max<int64_t>(1, side);
    const int64_t length = block_length(std::max<int64_t>(1, k));
    steps = k <= most ? k : std::max(length, most - most % length);
    const int64_t across = kWideElements / std::max<int64_t>(1, steps);
    const auto some_of = [](int64_t all, int64_t count) {
      if (all <= count) return all;
      return count > 64 ? count - count % 64 : count;  // whole tiles of the kernel
    };
    columns = some_of(n, across);
    rows = some_of(m, std::min(across, std::max<int64_t>(1, kWideElements / columns)));
  }
};

/// call::Matmul, out not empty; out is bfloat16 or float32.
void bf16_products(const Array& a, const Array& b, const Array& out);
/// call::PackMatrix and call::MatmulPacked, out not empty.
PackedMatrix bf16_packed(const Array& b);
void bf16_packed_product(const Array& a, const PackedMatrix& b, const Array& out);
/// call::Linear, out not empty.
void bf16_linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                 const Array& out, const Array* z);
/// Sets g_x if it is defined. The gradient of an activation's output is rounded before the gradient
/// of u is computed from it, as if the two were separate operations.
void bf16_input_backward(const call::LinearBack& back);
/// call::Attention and its backward, out not empty. Probabilities enter their product as two
/// halves each, their rounding and what it leaves, so that the result is rounded once; those of
/// backward, and the gradients of scores, are rounded.
void bf16_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out, const Array& log_sum);
void bf16_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                             const Array& k, const Array& v, const Array& out, const Array& log_sum,
                             const Array& g_q, const Array& g_k, const Array& g_v);

}  // namespace hero::core::cpu
