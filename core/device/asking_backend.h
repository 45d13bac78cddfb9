#pragma once
// A backend that asks for the bytes of offloaded arrays before another one runs its kernels.
#include <hero/core/device/backend.h>

namespace hero::core {

/// \name Restore the bytes of what is away, and wait for them.
/// \{
void ask_for(const Array& array);
void ask_for(const Array* array);  ///< null: nothing
void ask_for(std::span<const Array> arrays);
inline void ask_for_all(const auto&... arrays) { (ask_for(arrays), ...); }
void ask_scores(const AttentionScores& scores);
void ask_norm(const RowNorm& norm);
/// \}

/// [note: asked for] What was offloaded comes back when a kernel reads or writes it. A fetcher may
/// take some time over that, and the storage's address is known before its bytes are there. So the
/// arrays of a call are asked for here, on the thread that makes the call, and not by the threads
/// that share its work. Parameters of update() are pointers, which somebody has asked for.
class AskingBackend : public Backend {
 public:
  /// Kernels are those of `inner`; without one, nothing is done but to ask, and a derived class has
  /// the functions that return something.
  explicit AskingBackend(Backend* inner) : inner_(inner) {}

  void map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) override {
    for (const Operand& input : inputs) ask_for(input.array);
    ask_for(out);
    if (inner_ != nullptr) inner_->map(op, inputs, compute, out);
  }
  void chain(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
             std::span<const Array> outs) override {
    for (const Operand& input : inputs) ask_for(input.array);
    ask_for(outs);
    if (inner_ != nullptr) inner_->chain(steps, inputs, compute, outs);
  }
  void chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
                 const Shape& shape, const Array& out) override {
    for (const Operand& input : inputs) ask_for(input.array);
    ask_for(out);
    if (inner_ != nullptr) inner_->chain_sum(steps, inputs, compute, shape, out);
  }
  void copy(const Array& src, const Array& dst) override {
    ask_for_all(src, dst);
    if (inner_ != nullptr) inner_->copy(src, dst);
  }
  void fill(const Array& out, Scalar value) override {
    ask_for(out);
    if (inner_ != nullptr) inner_->fill(out, value);
  }
  void random(const RandomFill& fill, int64_t first, const Array& out) override {
    ask_for(out);
    if (inner_ != nullptr) inner_->random(fill, first, out);
  }
  void random_mask(const RandomFill& fill, int64_t first, double scale, const Array& x,
                   const Array& out) override {
    ask_for_all(x, out);
    if (inner_ != nullptr) inner_->random_mask(fill, first, scale, x, out);
  }
  void update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
              std::span<const double> coefficients) override {
    if (inner_ != nullptr) inner_->update(op, dtype, items, coefficients);
  }
  void reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) override {
    ask_for_all(x, center, out);
    if (inner_ != nullptr) inner_->reduce(op, x, center, out);
  }
  void exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) override {
    ask_for_all(xs, words);
    if (inner_ != nullptr) inner_->exact_sum(op, xs, words);
  }
  void exact_result(SumResult result, const Array& words, const Array& out) override {
    ask_for_all(words, out);
    if (inner_ != nullptr) inner_->exact_result(result, words, out);
  }
  void limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) override {
    ask_for_all(xs, norm);
    if (inner_ != nullptr) inner_->limit_norm(xs, norm, max_norm);
  }
  void arg_reduce(ArgOp op, const Array& x, int dim, const Array& values,
                  const Array& indices) override {
    ask_for_all(x, values, indices);
    if (inner_ != nullptr) inner_->arg_reduce(op, x, dim, values, indices);
  }
  void scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) override {
    ask_for_all(x, out);
    if (inner_ != nullptr) inner_->scan(op, direction, x, dim, out);
  }
  void sort(const Array& x, int dim, bool descending, const Array& values,
            const Array& indices) override {
    ask_for_all(x, values, indices);
    if (inner_ != nullptr) inner_->sort(x, dim, descending, values, indices);
  }
  void matmul(const Array& a, const Array& b, const Array& out) override {
    ask_for_all(a, b, out);
    if (inner_ != nullptr) inner_->matmul(a, b, out);
  }
  PackedMatrix pack_matrix(const Array& b) override {
    ask_for(b);
    return inner_->pack_matrix(b);
  }
  void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) override {
    ask_for_all(a, b.panels, out);
    if (inner_ != nullptr) inner_->matmul_packed(a, b, out);
  }
  void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
              const Array& out, const Array* z) override {
    ask_for_all(x, w, bias, out, z);
    if (inner_ != nullptr) inner_->linear(activation, x, w, bias, out, z);
  }
  void linear_backward(const LinearBack& back) override {
    ask_for_all(back.g, back.x, back.w, back.g_x, back.g_w, back.g_bias, back.u);
    if (inner_ != nullptr) inner_->linear_backward(back);
  }
  void bias_activation(Activation activation, const Array* bias, const Array& z,
                       const Array& out) override {
    ask_for_all(bias, z, out);
    if (inner_ != nullptr) inner_->bias_activation(activation, bias, z, out);
  }
  Array checked_index(const char* op, const Array& index, int64_t size) override {
    ask_for(index);
    return inner_->checked_index(op, index, size);
  }
  void gather(const Array& x, int dim, const Array& index, const Array& out) override {
    ask_for_all(x, index, out);
    if (inner_ != nullptr) inner_->gather(x, dim, index, out);
  }
  void scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
               const Array& out) override {
    ask_for_all(src, index, out);
    if (inner_ != nullptr) inner_->scatter(mode, src, dim, index, out);
  }
  void index_select(const Array& x, int dim, const Array& index, const Array& out) override {
    ask_for_all(x, index, out);
    if (inner_ != nullptr) inner_->index_select(x, dim, index, out);
  }
  void index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                 const Array& out) override {
    ask_for_all(src, index, out);
    if (inner_ != nullptr) inner_->index_add(src, dim, index, alpha, out);
  }
  void weigh(const SparseRows& rows, const Array& x, int dim, const Array& out) override {
    ask_for_all(rows.starts, rows.places, rows.weights, x, out);
    if (inner_ != nullptr) inner_->weigh(rows, x, dim, out);
  }
  Array nonzero(const Array& x) override {
    ask_for(x);
    return inner_->nonzero(x);
  }
  void im2col(const Array& x, const Window& window, const Array& out) override {
    ask_for_all(x, out);
    if (inner_ != nullptr) inner_->im2col(x, window, out);
  }
  void col2im(const Array& columns, const Window& window, const Array& out) override {
    ask_for_all(columns, out);
    if (inner_ != nullptr) inner_->col2im(columns, window, out);
  }
  void pool(PoolOp op, const Array& x, const Window& window, const Array& out,
            const Array* indices) override {
    ask_for_all(x, out, indices);
    if (inner_ != nullptr) inner_->pool(op, x, window, out, indices);
  }
  void max_pool_backward(const Array& g, const Window& window, const Array& indices,
                         const Array& out) override {
    ask_for_all(g, indices, out);
    if (inner_ != nullptr) inner_->max_pool_backward(g, window, indices, out);
  }
  void average_pool_backward(const Array& g, const Window& window, const Array& out) override {
    ask_for_all(g, out);
    if (inner_ != nullptr) inner_->average_pool_backward(g, window, out);
  }
  void softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) override {
    ask_for_all(x, out);
    if (inner_ != nullptr) inner_->softmax(kind, x, dim, out);
  }
  void softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                        const Array& out) override {
    ask_for_all(g, y, out);
    if (inner_ != nullptr) inner_->softmax_backward(kind, g, y, dim, out);
  }
  void normalize_rows(const RowNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& scale) override {
    ask_norm(norm);
    ask_for_all(x, out, mean, scale);
    if (inner_ != nullptr) inner_->normalize_rows(norm, x, out, mean, scale);
  }
  void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                               const Array& mean, const Array& scale, const Array& g_x,
                               const Array* g_weight, const Array* g_bias) override {
    ask_norm(norm);
    ask_for_all(g, x, mean, scale, g_x, g_weight, g_bias);
    if (inner_ != nullptr)
      inner_->normalize_rows_backward(norm, g, x, mean, scale, g_x, g_weight, g_bias);
  }
  void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                          const Array& mean, const Array& variance) override {
    ask_for_all(norm.weight, norm.bias, x, out, mean, variance);
    if (inner_ != nullptr) inner_->normalize_channels(norm, x, out, mean, variance);
  }
  void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                   const Array& mean, const Array& variance, const Array* g_x,
                                   const Array* g_weight, const Array* g_bias) override {
    ask_for_all(norm.weight, norm.bias, g, x, mean, variance, g_x, g_weight, g_bias);
    if (inner_ != nullptr)
      inner_->normalize_channels_backward(norm, g, x, mean, variance, g_x, g_weight, g_bias);
  }
  void attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                 const Array& out, const Array& log_sum) override {
    ask_scores(scores);
    ask_for_all(q, k, v, out, log_sum);
    if (inner_ != nullptr) inner_->attention(scores, q, k, v, out, log_sum);
  }
  void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                          const Array& k, const Array& v, const Array& out, const Array& log_sum,
                          const Array& g_q, const Array& g_k, const Array& g_v) override {
    ask_scores(scores);
    ask_for_all(g, q, k, v, out, log_sum, g_q, g_k, g_v);
    if (inner_ != nullptr)
      inner_->attention_backward(scores, g, q, k, v, out, log_sum, g_q, g_k, g_v);
  }
  void log_likelihood(const Array& x, const Array& classes, const Array& out,
                      const Array& log_sum) override {
    ask_for_all(x, classes, out, log_sum);
    if (inner_ != nullptr) inner_->log_likelihood(x, classes, out, log_sum);
  }
  void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                               const Array& log_sum, const Array& g_x) override {
    ask_for_all(g, x, classes, log_sum, g_x);
    if (inner_ != nullptr) inner_->log_likelihood_backward(g, x, classes, log_sum, g_x);
  }
  void log_likelihood_in_place(const Array& g, const Array& x, const Array& classes,
                               const Array& out, const Array& log_sum) override {
    ask_for_all(g, x, classes, out, log_sum);
    if (inner_ != nullptr) inner_->log_likelihood_in_place(g, x, classes, out, log_sum);
  }
  void recurrent_cell(CellKind kind, const CellStep& step) override {
    ask_for_all(step.of_x, step.of_h, step.h_before, step.c_before, step.h, step.c);
    if (inner_ != nullptr) inner_->recurrent_cell(kind, step);
  }
  void recurrent_cell_backward(CellKind kind, const CellStepBack& step) override {
    ask_for_all(step.gates, step.of_h, step.h_before, step.c_before, step.c, step.g_h,
                step.g_output, step.g_c, step.g_of_x, step.g_of_h);
    if (inner_ != nullptr) inner_->recurrent_cell_backward(kind, step);
  }
  void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
              const Array* error) override {
    ask_for_all(x, bytes, error);
    if (inner_ != nullptr) inner_->encode(codec, x, row, bytes, error);
  }
  void decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
              const Array& out) override {
    ask_for_all(bytes, out);
    if (inner_ != nullptr) inner_->decode(codec, bytes, row, mode, out);
  }

 private:
  Backend* const inner_;
};

/// `inner` behind an AskingBackend, one for each `inner`, which lives as long as the process.
Backend& asking(Backend& inner);

}  // namespace hero::core
