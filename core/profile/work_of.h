#pragma once
// How many flops and bytes a call of each family asks for: the only place that says so.
//
// A multiply-add is two flops, any other arithmetic on an element is as many as are written here:
// close, and of no consequence, since such kernels wait for memory. Products count theirs alone,
// without the bias and activation that follow in place. Bytes are those that must be read and
// written, each once; a stride of 0 repeats an element that is read once.
#include <hero/core/device/backend.h>
#include <hero/core/profile/work.h>

namespace hero::core {

/// Bytes of the elements that x has in memory: of a broadcast array those of the one it came from.
int64_t stored_bytes(const Array& x);
int64_t stored_bytes(const Array* x);
int64_t stored_bytes(std::span<const Array> xs);

/// \name The work of a family's call; arguments as for Backend's function of that name
/// \{
Work map_work(std::span<const Operand> inputs, DType compute, const Array& out);
/// Reads x and writes out; `flops` for each element of x.
Work pass_work(WorkKind kind, int64_t flops, const Array& x, const Array& out);
Work matmul_work(const Array& a, const Array& b, const Array& out);
/// A product [M, K] x [K, N] of x's dtype that reads and writes `bytes`.
Work product_work(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes);
/// The pairs of a query and a key that count: all, or those that a causal mask leaves.
int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys);
Work attention_work(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out);
/// Twice the products of forward: of gradients with values, keys and queries. That kernels compute
/// the scores once more is no work that is asked for.
Work attention_backward_work(const AttentionScores& scores, const Array& q, const Array& k,
                             const Array& v, const Array& out);
Work normalize_work(const RowNorm& norm, const Array& x, const Array& out);
Work normalize_backward_work(const RowNorm& norm, const Array& g, const Array& g_x);
/// Reads g and, unless its statistics are fixed and nobody wants the weight's gradient, x.
Work normalize_channels_backward_work(const ChannelNorm& norm, const Array& g, const Array& x,
                                      const Array* g_x, const Array* g_weight);
Work update_work(UpdateOp op, DType dtype, std::span<const UpdateItem> items);
Work encode_work(const Array& x, const Array& bytes, const Array* error);
Work decode_work(const Array& bytes, DecodeMode mode, const Array& out);
/// \}

}  // namespace hero::core
