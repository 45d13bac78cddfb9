// The meta device: shapes without bytes. Every family has nothing to compute; what needs values
// fails.
#include <hero/core/at_fork.h>
#include <hero/core/backend.h>
#include <hero/core/cpu/products/halves.h>
#include <hero/core/fetcher.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/planned_device.h>

namespace hero::core {

namespace {

// [note: asked for] What was offloaded comes back when a kernel reads or writes it. There are no
// bytes here, but the arrays of a call are asked for as those of other devices are, so that memory
// and transfers are theirs.
void ask_for(const Array& array) {
  if (array.defined() && array.numel() > 0 && is_away(array)) fetcher_of(array.storage())->fetch();
}
void ask_for(const Array* array) {
  if (array != nullptr) ask_for(*array);
}
void ask_for(std::span<const Array> arrays) {
  for (const Array& each : arrays) ask_for(each);
}
void ask_for_all(const auto&... arrays) { (ask_for(arrays), ...); }

void ask_scores(const AttentionScores& scores) { ask_for_all(scores.mask, scores.bias); }
void ask_norm(const RowNorm& norm) {
  ask_for_all(norm.weight, norm.bias, norm.residual, norm.sum, norm.g_sum, norm.g_residual);
}

// [note: widened] What is planned for the CPU takes the memory of its products of halves, too:
// where the CPU has none of the dtype they go through float32 arrays, in pieces as in
// core/cpu/products/matmul.cpp.
bool is_widened(const Array& out) {
  return out.numel() > 0 && kernels_of(out.device()) == DeviceType::cpu &&
         cpu::are_widened(out.dtype());
}

Array wide_room(int64_t count, const Array& beside) {
  return Array::empty({count}, kFloat32, beside.device());
}

void hold_widened(const Array& a, const Array& b, const Array& out) {
  if (!is_widened(out)) return;
  const int64_t count = cpu::widened_at_once(a, b, out);
  const auto part = [&](const Array& x) {
    return wide_room((x.strides()[0] != 0 ? count : 1) * x.size(1) * x.size(2), out);
  };
  const Array wide = wide_room(count * out.size(1) * out.size(2), out);
  const Array left = part(a), right = part(b);
}

void hold_widened_linear(const Array& x, const Array& w, const Array* bias, const Array& out,
                         const Array* z) {
  if (!is_widened(out)) return;
  const Array sums = wide_room(out.numel(), out);
  const Array wide = z != nullptr ? wide_room(out.numel(), out) : Array();
  { const Array left = wide_room(x.numel(), out), right = wide_room(w.numel(), out); }
  const Array shift = bias != nullptr ? wide_room(bias->numel(), out) : Array();
}

class MetaBackend final : public Backend {
 public:
  void map(MapOp, std::span<const Operand> inputs, DType, const Array& out) override {
    for (const Operand& input : inputs) ask_for(input.array);
    ask_for(out);
  }
  void copy(const Array& src, const Array& dst) override {
    ask_for_all(src, dst);
    const bool is_staged = src.device() == kPlannedHost && dst.device() != kPlannedHost &&
                           dst.numel() > 0 && dst.nbytes() <= kStagedBytes;
    if (is_staged) Array::empty(dst.shape(), dst.dtype(), kPlannedHost);
  }
  void fill(const Array& out, Scalar) override { ask_for(out); }
  void reduce(ReduceKind, const Array& x, const Array* center, const Array& out) override {
    ask_for_all(x, center, out);
  }
  void exact_sum(ReduceKind, std::span<const Array> xs, const Array& words) override {
    ask_for_all(xs, words);
  }
  void exact_result(SumResult, const Array& words, const Array& out) override {
    ask_for_all(words, out);
  }
  void limit_norm(std::span<const Array> xs, const Array& norm, double) override {
    ask_for_all(xs, norm);
  }
  void arg_reduce(ArgOp, const Array& x, int, const Array& values, const Array& indices) override {
    ask_for_all(x, values, indices);
  }
  void scan(ScanOp, Direction, const Array& x, int, const Array& out) override {
    ask_for_all(x, out);
  }
  void matmul(const Array& a, const Array& b, const Array& out) override {
    ask_for_all(a, b, out);
    hold_widened(a, b, out);
  }
  PackedMatrix pack_matrix(const Array& b) override {
    ask_for(b);
    return {b.size(0), b.size(1), Array::empty({b.numel()}, b.dtype(), b.device())};
  }
  void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) override {
    ask_for_all(a, b.panels, out);
  }
  void linear(Activation, const Array& x, const Array& w, const Array* bias, const Array& out,
              const Array* z) override {
    ask_for_all(x, w, bias, out, z);
    hold_widened_linear(x, w, bias, out, z);
  }
  void linear_backward(const LinearBack& back) override {
    ask_for_all(back.g, back.x, back.w, back.g_x, back.g_w, back.g_bias, back.u);
    const auto product = [](const Array& a, const Array& b, const Array& out) {
      if (out.defined()) hold_widened(a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0));
    };
    product(back.g, back.w, back.g_x);
    product(back.g.t(), back.x, back.g_w);
  }
  void softmax(SoftmaxKind, const Array& x, int, const Array& out) override { ask_for_all(x, out); }
  void softmax_backward(SoftmaxKind, const Array& g, const Array& y, int,
                        const Array& out) override {
    ask_for_all(g, y, out);
  }
  Array checked_index(const char*, const Array& index, int64_t) override {
    ask_for(index);
    return index.to(kInt64);
  }
  void gather(const Array& x, int, const Array& index, const Array& out) override {
    ask_for_all(x, index, out);
  }
  void scatter(ScatterMode, const Array& src, int, const Array& index, const Array& out) override {
    ask_for_all(src, index, out);
  }
  void index_select(const Array& x, int, const Array& index, const Array& out) override {
    ask_for_all(x, index, out);
  }
  void index_add(const Array& src, int, const Array& index, Scalar, const Array& out) override {
    ask_for_all(src, index, out);
  }
  void weigh(const SparseRows& rows, const Array& x, int, const Array& out) override {
    ask_for_all(rows.starts, rows.places, rows.weights, x, out);
  }
  void sort(const Array& x, int, bool, const Array& values, const Array& indices) override {
    ask_for_all(x, values, indices);
  }
  Array nonzero(const Array& x) override {
    fail("nonzero: the result's shape depends on values, and meta array ", x.shape(),
         " has none; use a cpu array");
  }
  void im2col(const Array& x, const Window&, const Array& out) override { ask_for_all(x, out); }
  void col2im(const Array& columns, const Window&, const Array& out) override {
    ask_for_all(columns, out);
  }
  void pool(PoolOp, const Array& x, const Window&, const Array& out,
            const Array* indices) override {
    ask_for_all(x, out, indices);
  }
  void max_pool_backward(const Array& g, const Window&, const Array& indices,
                         const Array& out) override {
    ask_for_all(g, indices, out);
  }
  void average_pool_backward(const Array& g, const Window&, const Array& out) override {
    ask_for_all(g, out);
  }
  void random(const RandomFill&, int64_t, const Array& out) override { ask_for(out); }
  void bias_activation(Activation, const Array* bias, const Array& z, const Array& out) override {
    ask_for_all(bias, z, out);
  }
  void normalize_rows(const RowNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& scale) override {
    ask_norm(norm);
    ask_for_all(x, out, mean, scale);
  }
  void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                               const Array& mean, const Array& scale, const Array& g_x,
                               const Array* g_weight, const Array* g_bias) override {
    ask_norm(norm);
    ask_for_all(g, x, mean, scale, g_x, g_weight, g_bias);
  }
  void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                          const Array& mean, const Array& variance) override {
    ask_for_all(norm.weight, norm.bias, x, out, mean, variance);
  }
  void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                   const Array& mean, const Array& variance, const Array* g_x,
                                   const Array* g_weight, const Array* g_bias) override {
    ask_for_all(norm.weight, norm.bias, g, x, mean, variance, g_x, g_weight, g_bias);
  }
  void attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                 const Array& out, const Array& log_sum) override {
    ask_scores(scores);
    ask_for_all(q, k, v, out, log_sum);
  }
  void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                          const Array& k, const Array& v, const Array& out, const Array& log_sum,
                          const Array& g_q, const Array& g_k, const Array& g_v) override {
    ask_scores(scores);
    ask_for_all(g, q, k, v, out, log_sum, g_q, g_k, g_v);
  }
  void log_likelihood(const Array& x, const Array& classes, const Array& out,
                      const Array& log_sum) override {
    ask_for_all(x, classes, out, log_sum);
  }
  void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                               const Array& log_sum, const Array& g_x) override {
    ask_for_all(g, x, classes, log_sum, g_x);
  }
  void recurrent_cell(CellKind, const CellStep& step) override {
    ask_for_all(step.of_x, step.of_h, step.h_before, step.c_before, step.h, step.c);
  }
  void recurrent_cell_backward(CellKind, const CellStepBack& step) override {
    ask_for_all(step.gates, step.of_h, step.h_before, step.c_before, step.c, step.g_h, step.g_c,
                step.g_of_x, step.g_of_h);
  }
  void random_mask(const RandomFill&, double, const Array& x, const Array& out) override {
    ask_for_all(x, out);
  }
  void update(UpdateOp, DType, std::span<const UpdateItem>, std::span<const double>) override {}
  void encode(Codec, const Array& x, int64_t, const Array& bytes, const Array* error) override {
    ask_for_all(x, bytes, error);
  }
  void decode(Codec, const Array& bytes, int64_t, DecodeMode, const Array& out) override {
    ask_for_all(bytes, out);
  }
};

}  // namespace

Backend& meta_backend() {
  static auto* const backend = new MetaBackend;  // leaked, as that of the cpu
  return *backend;
}

Backend& planned_host_backend() {
  static auto* const backend = new MetaBackend;
  return *backend;
}

namespace {

[[maybe_unused]] const bool kMetaBackendsAtFork = at_fork([] {
  meta_backend();
  planned_host_backend();
});  // see [note: forks]

}  // namespace

}  // namespace hero::core
