#pragma once
// Helpers of call_costs.cpp, which defines cost() of each call of core/device/calls.h: how many
// flops and bytes a kernel needs. No other file defines them.
//
// A multiply-add is two flops. The flops of other arithmetic on an element are estimates, which do
// not matter, since such kernels are bound by memory. Products do not count the flops of the bias
// and activation that follow in place. Bytes are those that must be read and written, each once; a
// stride of 0 repeats an element that is read once.
#include <hero/core/device/backend.h>
#include <hero/core/profile/kernel_cost.h>

namespace hero::core {

/// Bytes of the elements that x has in memory: for a broadcast array, those of the array before
/// broadcasting.
int64_t stored_bytes(const Array& x);
int64_t stored_bytes(const Array* x);
int64_t stored_bytes(std::span<const Array> xs);

/// The cost of a kernel that reads x, writes out, and does `flops` for each element of x.
KernelCost pass_cost(KernelKind kind, int64_t flops, const Array& x, const Array& out);
/// The cost of a product [M, K] x [K, N] of operands of this dtype, which reads and writes `bytes`.
KernelCost product_cost(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes);
/// The number of pairs of a query and a key: all, or those that a causal mask keeps.
int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys);

}  // namespace hero::core
