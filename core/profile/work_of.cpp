#include <algorithm>
#include <array>

#include <hero/core/kernels/optimizer_steps.h>
#include <hero/core/profile/work_of.h>

namespace hero::core {

namespace {

template <class... Fs>
constexpr std::array<int, sizeof...(Fs)> states_of(TypeList<Fs...>) {
  return {Fs::states...};
}
constexpr auto kUpdateStates = states_of(kernels::UpdateList{});

// On the CPU a call is one parallel region; a GPU takes so many tensors a launch.
constexpr int64_t kItemsOfALaunch = 64;

}  // namespace

int64_t stored_bytes(const Array& x) {
  if (!x.defined()) return 0;
  int64_t count = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.strides()[i] != 0 || x.shape()[i] == 0) count *= x.shape()[i];
  }
  return count * item_size(x.dtype());
}

int64_t stored_bytes(const Array* x) { return x ? stored_bytes(*x) : 0; }
int64_t stored_bytes(std::span<const Array> xs) {
  int64_t bytes = 0;
  for (const Array& x : xs) bytes += stored_bytes(x);
  return bytes;
}

Work map_work(std::span<const Operand> inputs, DType compute, const Array& out) {
  Work work{.dtype = compute, .flops = out.numel(), .bytes = out.nbytes()};
  for (const Operand& input : inputs) work.bytes += stored_bytes(input.array);
  return work;
}

Work pass_work(WorkKind kind, int64_t flops, const Array& x, const Array& out) {
  return {.kind = kind,
          .dtype = x.dtype(),
          .flops = flops * x.numel(),
          .bytes = stored_bytes(x) + out.nbytes()};
}

Work product_work(DType dtype, int64_t m, int64_t n, int64_t k, int64_t bytes) {
  return {.kind = WorkKind::matmul, .dtype = dtype, .flops = 2 * m * n * k, .bytes = bytes};
}

Work matmul_work(const Array& a, const Array& b, const Array& out) {
  return product_work(a.dtype(), out.numel(), a.size(2), 1,
                      stored_bytes(a) + stored_bytes(b) + out.nbytes());
}

int64_t attention_pairs(const AttentionScores& scores, int64_t queries, int64_t keys) {
  if (!scores.is_causal) return queries * keys;
  // query t sees min(keys, first_query + t + 1) of them
  const int64_t partly = std::clamp<int64_t>(keys - scores.first_query, 0, queries);
  return partly * scores.first_query + partly * (partly + 1) / 2 + (queries - partly) * keys;
}

Work attention_work(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                    const Array& out) {
  const int64_t pairs = attention_pairs(scores, q.size(2), k.size(2));
  return {.kind = WorkKind::attention,
          .dtype = q.dtype(),
          .flops = 2 * q.size(0) * q.size(1) * pairs * (q.size(3) + v.size(3)),
          .bytes = stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes() +
                   stored_bytes(scores.mask) + stored_bytes(scores.bias)};
}

Work attention_backward_work(const AttentionScores& scores, const Array& q, const Array& k,
                             const Array& v, const Array& out) {
  Work work = attention_work(scores, q, k, v, out);
  work.flops *= 2;
  work.bytes += stored_bytes(q) + stored_bytes(k) + stored_bytes(v) + out.nbytes();
  return work;
}

Work normalize_work(const RowNorm& norm, const Array& x, const Array& out) {
  Work work = pass_work(WorkKind::reduce, norm.centered ? 7 : 4, x, out);
  work.bytes += stored_bytes(norm.residual) + stored_bytes(norm.sum);
  return work;
}

Work normalize_backward_work(const RowNorm& norm, const Array& g, const Array& g_x) {
  Work work = pass_work(WorkKind::reduce, 11, g, g_x);
  work.bytes += g.nbytes() + stored_bytes(norm.g_sum) + stored_bytes(norm.g_residual);  // g: and x
  return work;
}

Work normalize_channels_backward_work(const ChannelNorm& norm, const Array& g, const Array& x,
                                      const Array* g_x, const Array* g_weight) {
  const bool reads_x = !norm.fixed || g_weight != nullptr;
  return {.kind = WorkKind::reduce,
          .dtype = x.dtype(),
          .flops = (reads_x ? 11 : 2) * x.numel(),
          .bytes = g.nbytes() + (reads_x ? x.nbytes() : 0) + stored_bytes(g_x)};
}

Work update_work(UpdateOp op, DType dtype, std::span<const UpdateItem> items) {
  const int states = kUpdateStates[op.index];
  int64_t n = 0, low = 0;
  for (const UpdateItem& item : items) {
    n += item.n;
    if (is_half(item.low_dtype)) low += item.n;
  }
  const int64_t state_size = std::max<int64_t>(item_size(dtype), 4);  // of halves float32
  return {.kind = WorkKind::elementwise,
          .dtype = dtype,
          .flops = (3 + 5 * states) * n,
          .bytes = n * (3 * item_size(dtype) + 2 * states * state_size) +
                   low * (2 * 2 - item_size(dtype)),  // the gradient read and the copy written
          .launches = (static_cast<int64_t>(items.size()) + kItemsOfALaunch - 1) / kItemsOfALaunch};
}

// A magnitude, a product and a rounding for each element; with the error a sum before and a
// difference behind.
Work encode_work(const Array& x, const Array& bytes, const Array* error) {
  return {.kind = WorkKind::elementwise,
          .dtype = x.dtype(),
          .flops = (error ? 6 : 3) * x.numel(),
          .bytes = x.nbytes() + bytes.nbytes() + 2 * stored_bytes(error)};
}

Work decode_work(const Array& bytes, DecodeMode mode, const Array& out) {
  const int64_t rows = mode == DecodeMode::sum ? bytes.size(0) : 1;
  const int64_t adds = mode == DecodeMode::add ? 1 : rows - 1;
  return {.kind = WorkKind::elementwise,
          .dtype = out.dtype(),
          .flops = (rows + adds) * out.numel(),
          .bytes = bytes.nbytes() + (mode == DecodeMode::add ? 2 : 1) * out.nbytes()};
}

}  // namespace hero::core
