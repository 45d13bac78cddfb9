#include <cmath>
#include <mutex>
#include <unordered_map>

#include <hero/core/device/planned_device.h>
#include <hero/core/profile/metered_backend.h>
#include <hero/core/profile/work_of.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

constexpr WorkKind kReduce = WorkKind::reduce, kCopy = WorkKind::copy, kWindow = WorkKind::window;

int64_t total_elements(std::span<const Array> xs) {
  int64_t elements = 0;
  for (const Array& x : xs) elements += x.numel();
  return elements;
}

DType dtype_of(std::span<const Array> xs) { return xs.empty() ? kFloat32 : xs.front().dtype(); }

// Inside of a call nothing is charged: a family may be made of others.
class MeteredBackend final : public Backend {
 public:
  MeteredBackend(Backend& inner, WorkPlace place) : inner_(inner), place_(place) {}

  void map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) override {
    charge(map_work(inputs, compute, out));
    const WorkScope inside(nullptr);
    inner_.map(op, inputs, compute, out);
  }
  void chain(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
             std::span<const Array> outs) override {
    // A GPU takes the steps one by one, and each is charged.
    if (kernels_of(outs[0].device()) == DeviceType::cuda)
      return Backend::chain(steps, inputs, compute, outs);
    Work work = map_work(inputs, compute, outs[0]);
    work.flops *= static_cast<int64_t>(steps.size());
    work.bytes += stored_bytes(outs.subspan(1));
    charge(work);
    const WorkScope inside(nullptr);
    inner_.chain(steps, inputs, compute, outs);
  }
  void chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
                 const Shape& shape, const Array& out) override {
    if (kernels_of(out.device()) == DeviceType::cuda)
      return Backend::chain_sum(steps, inputs, compute, shape, out);
    Work work = map_work(inputs, compute, out);
    work.flops = shape.numel() * static_cast<int64_t>(steps.size() + 1);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.chain_sum(steps, inputs, compute, shape, out);
  }
  void copy(const Array& src, const Array& dst) override {
    const bool between = (src.device() == kPlannedHost) != (dst.device() == kPlannedHost);
    charge(between ? Work{.kind = kCopy,
                          .dtype = dst.dtype(),
                          .bytes = dst.nbytes(),
                          .place = WorkPlace::between}
                   : pass_work(kCopy, 0, src, dst));
    const WorkScope inside(nullptr);
    inner_.copy(src, dst);
  }
  void fill(const Array& out, Scalar value) override {
    charge({.dtype = out.dtype(), .bytes = stored_bytes(out)});
    const WorkScope inside(nullptr);
    inner_.fill(out, value);
  }
  void reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) override {
    Work work = pass_work(kReduce, op == ReduceKind::sum ? 1 : 2, x, out);
    work.bytes += stored_bytes(center);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.reduce(op, x, center, out);
  }
  void exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) override {
    charge({.kind = kReduce,
            .dtype = dtype_of(xs),
            .flops = 2 * total_elements(xs),
            .bytes = stored_bytes(xs) + words.nbytes()});
    const WorkScope inside(nullptr);
    inner_.exact_sum(op, xs, words);
  }
  void exact_result(SumResult result, const Array& words, const Array& out) override {
    charge({.kind = kReduce, .dtype = kFloat64, .bytes = words.nbytes() + out.nbytes()});
    const WorkScope inside(nullptr);
    inner_.exact_result(result, words, out);
  }
  void limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) override {
    // as if they were too long
    charge({.dtype = dtype_of(xs), .flops = total_elements(xs), .bytes = 2 * stored_bytes(xs)});
    const WorkScope inside(nullptr);
    inner_.limit_norm(xs, norm, max_norm);
  }
  void arg_reduce(ArgOp op, const Array& x, int dim, const Array& values,
                  const Array& indices) override {
    Work work = pass_work(kReduce, 1, x, values);
    work.bytes += indices.nbytes();
    charge(work);
    const WorkScope inside(nullptr);
    inner_.arg_reduce(op, x, dim, values, indices);
  }
  void scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) override {
    charge(pass_work(kReduce, 1, x, out));
    const WorkScope inside(nullptr);
    inner_.scan(op, direction, x, dim, out);
  }
  void matmul(const Array& a, const Array& b, const Array& out) override {
    charge(matmul_work(a, b, out));
    const WorkScope inside(nullptr);
    inner_.matmul(a, b, out);
  }
  PackedMatrix pack_matrix(const Array& b) override {
    charge(pass_work(kCopy, 0, b, b));
    const WorkScope inside(nullptr);
    return inner_.pack_matrix(b);
  }
  void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) override {
    charge(product_work(a.dtype(), a.size(0), b.columns, b.rows,
                        stored_bytes(a) + b.panels.nbytes() + out.nbytes()));
    const WorkScope inside(nullptr);
    inner_.matmul_packed(a, b, out);
  }
  void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
              const Array& out, const Array* z) override {
    charge(product_work(
        x.dtype(), x.size(0), w.size(0), x.size(1),
        stored_bytes(x) + stored_bytes(w) + stored_bytes(bias) + out.nbytes() + stored_bytes(z)));
    const WorkScope inside(nullptr);
    inner_.linear(activation, x, w, bias, out, z);
  }
  void linear_backward(const LinearBack& back) override {
    const int64_t m = back.g.size(0), n = back.g.size(1);
    // neither is there where the gradient of the bias is wanted alone
    const Array& with_k = back.x.defined() ? back.x : back.w;
    const int64_t k = with_k.defined() ? with_k.size(1) : 0;
    const DType dtype = back.g.dtype();
    if (back.g_x.defined()) {
      charge(product_work(
          dtype, m, k, n,
          stored_bytes(back.g) + stored_bytes(back.w) + back.g_x.nbytes() + stored_bytes(back.u)));
    }
    if (back.g_w.defined()) {
      charge(product_work(dtype, n, k, m,
                          stored_bytes(back.g) + stored_bytes(back.x) + back.g_w.nbytes()));
    }
    if (back.g_bias.defined()) charge(pass_work(kReduce, 1, back.g, back.g_bias));
    const WorkScope inside(nullptr);
    inner_.linear_backward(back);
  }
  void softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) override {
    charge(pass_work(kReduce, 5, x, out));
    const WorkScope inside(nullptr);
    inner_.softmax(kind, x, dim, out);
  }
  void softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                        const Array& out) override {
    Work work = pass_work(kReduce, 4, g, out);
    work.bytes += stored_bytes(y);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.softmax_backward(kind, g, y, dim, out);
  }
  Array checked_index(const char* op, const Array& index, int64_t size) override {
    charge(pass_work(kCopy, 0, index, index));
    const WorkScope inside(nullptr);
    return inner_.checked_index(op, index, size);
  }
  void gather(const Array& x, int dim, const Array& index, const Array& out) override {
    charge(moved(index, out, 2));
    const WorkScope inside(nullptr);
    inner_.gather(x, dim, index, out);
  }
  void scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
               const Array& out) override {
    charge(moved(index, src, mode == ScatterMode::add ? 3 : 2));
    const WorkScope inside(nullptr);
    inner_.scatter(mode, src, dim, index, out);
  }
  void index_select(const Array& x, int dim, const Array& index, const Array& out) override {
    charge(moved(index, out, 2));
    const WorkScope inside(nullptr);
    inner_.index_select(x, dim, index, out);
  }
  void index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                 const Array& out) override {
    charge(moved(index, src, 3));
    const WorkScope inside(nullptr);
    inner_.index_add(src, dim, index, alpha, out);
  }
  void weigh(const SparseRows& rows, const Array& x, int dim, const Array& out) override {
    Work work = pass_work(kWindow, 0, x, out);
    const int64_t lines = out.numel() / std::max<int64_t>(out.shape()[dim], 1);
    work.flops = 2 * rows.weights.numel() * lines;
    charge(work);
    const WorkScope inside(nullptr);
    inner_.weigh(rows, x, dim, out);
  }
  void sort(const Array& x, int dim, bool descending, const Array& values,
            const Array& indices) override {
    const double length = static_cast<double>(std::max<int64_t>(x.size(dim), 2));
    Work work = pass_work(kReduce, std::llround(std::ceil(std::log2(length))), x, values);
    work.bytes += indices.nbytes();
    charge(work);
    const WorkScope inside(nullptr);
    inner_.sort(x, dim, descending, values, indices);
  }
  Array nonzero(const Array& x) override {
    charge({.kind = kReduce, .dtype = x.dtype(), .flops = x.numel(), .bytes = stored_bytes(x)});
    const WorkScope inside(nullptr);
    return inner_.nonzero(x);
  }
  void im2col(const Array& x, const Window& window, const Array& out) override {
    charge(pass_work(kWindow, 0, x, out));
    const WorkScope inside(nullptr);
    inner_.im2col(x, window, out);
  }
  void col2im(const Array& columns, const Window& window, const Array& out) override {
    charge(pass_work(kWindow, 1, columns, out));
    const WorkScope inside(nullptr);
    inner_.col2im(columns, window, out);
  }
  void pool(PoolOp op, const Array& x, const Window& window, const Array& out,
            const Array* indices) override {
    Work work = pass_work(kWindow, 0, x, out);
    work.flops = out.numel() * window.kernel[0] * window.kernel[1];
    work.bytes += stored_bytes(indices);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.pool(op, x, window, out, indices);
  }
  void max_pool_backward(const Array& g, const Window& window, const Array& indices,
                         const Array& out) override {
    Work work = pass_work(kWindow, 1, g, out);
    work.bytes += stored_bytes(indices);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.max_pool_backward(g, window, indices, out);
  }
  void average_pool_backward(const Array& g, const Window& window, const Array& out) override {
    Work work = pass_work(kWindow, window.kernel[0] * window.kernel[1], g, out);
    work.bytes += out.nbytes();  // it is added to
    charge(work);
    const WorkScope inside(nullptr);
    inner_.average_pool_backward(g, window, out);
  }
  void random(const RandomFill& fill, int64_t first, const Array& out) override {
    charge({.dtype = out.dtype(), .flops = out.numel(), .bytes = out.nbytes()});
    const WorkScope inside(nullptr);
    inner_.random(fill, first, out);
  }
  void bias_activation(Activation activation, const Array* bias, const Array& z,
                       const Array& out) override {
    Work work = pass_work(WorkKind::elementwise, 2, z, out);
    work.bytes += stored_bytes(bias);
    charge(work);
    const WorkScope inside(nullptr);
    inner_.bias_activation(activation, bias, z, out);
  }
  void normalize_rows(const RowNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& scale) override {
    charge(normalize_work(norm, x, out));
    const WorkScope inside(nullptr);
    inner_.normalize_rows(norm, x, out, mean, scale);
  }
  void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                               const Array& mean, const Array& scale, const Array& g_x,
                               const Array* g_weight, const Array* g_bias) override {
    charge(normalize_backward_work(norm, g, g_x));
    const WorkScope inside(nullptr);
    inner_.normalize_rows_backward(norm, g, x, mean, scale, g_x, g_weight, g_bias);
  }
  void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                          const Array& mean, const Array& variance) override {
    charge(pass_work(WorkKind::reduce, norm.fixed ? 3 : 7, x, out));
    const WorkScope inside(nullptr);
    inner_.normalize_channels(norm, x, out, mean, variance);
  }
  void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                   const Array& mean, const Array& variance, const Array* g_x,
                                   const Array* g_weight, const Array* g_bias) override {
    charge(normalize_channels_backward_work(norm, g, x, g_x, g_weight));
    const WorkScope inside(nullptr);
    inner_.normalize_channels_backward(norm, g, x, mean, variance, g_x, g_weight, g_bias);
  }
  void attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                 const Array& out, const Array& log_sum) override {
    charge(attention_work(scores, q, k, v, out));
    const WorkScope inside(nullptr);
    inner_.attention(scores, q, k, v, out, log_sum);
  }
  void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                          const Array& k, const Array& v, const Array& out, const Array& log_sum,
                          const Array& g_q, const Array& g_k, const Array& g_v) override {
    charge(attention_backward_work(scores, q, k, v, out));
    const WorkScope inside(nullptr);
    inner_.attention_backward(scores, g, q, k, v, out, log_sum, g_q, g_k, g_v);
  }
  void log_likelihood(const Array& x, const Array& classes, const Array& out,
                      const Array& log_sum) override {
    charge(pass_work(kReduce, 4, x, out));
    const WorkScope inside(nullptr);
    inner_.log_likelihood(x, classes, out, log_sum);
  }
  void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                               const Array& log_sum, const Array& g_x) override {
    charge(pass_work(kReduce, 3, x, g_x));
    const WorkScope inside(nullptr);
    inner_.log_likelihood_backward(g, x, classes, log_sum, g_x);
  }
  void log_likelihood_in_place(const Array& g, const Array& x, const Array& classes,
                               const Array& out, const Array& log_sum) override {
    charge(pass_work(kReduce, 4, x, out));
    charge(pass_work(kReduce, 3, x, x));
    const WorkScope inside(nullptr);
    inner_.log_likelihood_in_place(g, x, classes, out, log_sum);
  }
  void recurrent_cell(CellKind kind, const CellStep& step) override {
    const int64_t bytes =
        step.of_x.nbytes() + step.of_h.nbytes() + 2 * step.h.nbytes() + 2 * stored_bytes(step.c);
    charge({.dtype = step.h.dtype(), .flops = 5 * step.of_x.numel(), .bytes = bytes});
    const WorkScope inside(nullptr);
    inner_.recurrent_cell(kind, step);
  }
  void recurrent_cell_backward(CellKind kind, const CellStepBack& step) override {
    const int64_t bytes = 3 * step.gates.nbytes() + 4 * step.g_h.nbytes() +
                          (step.g_output.defined() ? step.g_output.nbytes() : 0);
    charge({.dtype = step.g_h.dtype(), .flops = 6 * step.gates.numel(), .bytes = bytes});
    const WorkScope inside(nullptr);
    inner_.recurrent_cell_backward(kind, step);
  }
  void random_mask(const RandomFill& fill, int64_t first, double scale, const Array& x,
                   const Array& out) override {
    charge(pass_work(WorkKind::elementwise, 1, x, out));
    const WorkScope inside(nullptr);
    inner_.random_mask(fill, first, scale, x, out);
  }
  void update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
              std::span<const double> coefficients) override {
    charge(update_work(op, dtype, items));
    const WorkScope inside(nullptr);
    inner_.update(op, dtype, items, coefficients);
  }
  void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
              const Array* error) override {
    charge(encode_work(x, bytes, error));
    const WorkScope inside(nullptr);
    inner_.encode(codec, x, row, bytes, error);
  }
  void decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
              const Array& out) override {
    charge(decode_work(bytes, mode, out));
    const WorkScope inside(nullptr);
    inner_.decode(codec, bytes, row, mode, out);
  }

 private:
  // Empty arrays start no kernel.
  void charge(Work work) const {
    if (work.flops <= 0 && work.bytes <= 0) return;
    if (work.place == WorkPlace::device) work.place = place_;
    work_meter->charge(work);
  }
  // Elements that an index chooses, read or written so many times.
  static Work moved(const Array& index, const Array& elements, int64_t times) {
    return {.kind = kCopy,
            .dtype = elements.dtype(),
            .bytes = stored_bytes(index) + times * elements.nbytes()};
  }

  Backend& inner_;
  const WorkPlace place_;
};

constinit std::mutex metered_mutex;

std::unordered_map<Backend*, MeteredBackend>& metered_backends() {
  static auto* const all = new std::unordered_map<Backend*, MeteredBackend>;  // as backends, leaked
  return *all;
}
[[maybe_unused]] const bool kMeteredAtFork = at_fork(
    [] {
      metered_mutex.lock();
      metered_backends();
    },
    [] { metered_mutex.unlock(); }, [] { metered_mutex.unlock(); });  // see [note: forks]

}  // namespace

Backend& metered(Backend& inner, WorkPlace place) {
  const std::lock_guard lock(metered_mutex);
  return metered_backends().try_emplace(&inner, inner, place).first->second;
}

}  // namespace hero::core
