#pragma once
// How many flops and bytes a call of each family asks for, as work() of its struct
// (core/device/calls.h) says it, and what these are made of. work_of.cpp is the only place that
// says so.
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

/// Reads x and writes out; `flops` for each element of x.
Work pass_work(WorkKind kind, int64_t flops, const Array& x, const Array& out);
/// A product [M, K] x [K, N] of operands of the dtype that reads and writes `bytes`.
Work product_work(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes);
/// The pairs of a query and a key that count: all, or those that a causal mask leaves.
int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys);

}  // namespace hero::core
