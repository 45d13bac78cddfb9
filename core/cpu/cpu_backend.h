#pragma once
// The CPU backend: each family in a file of its own beside this one.
#include <hero/core/device/backend.h>

namespace hero::core::cpu {

class CpuBackend final : public Backend {
 public:
  void map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) override;
  void chain(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
             std::span<const Array> outs) override;
  void chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
                 const Shape& shape, const Array& out) override;
  void copy(const Array& src, const Array& dst) override;
  void fill(const Array& out, Scalar value) override;
  void reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) override;
  void exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) override;
  void exact_result(SumResult result, const Array& words, const Array& out) override;
  void limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) override;
  void arg_reduce(ArgOp op, const Array& x, int dim, const Array& values,
                  const Array& indices) override;
  void scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) override;
  void matmul(const Array& a, const Array& b, const Array& out) override;
  PackedMatrix pack_matrix(const Array& b) override;
  void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) override;
  void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
              const Array& out, const Array* z) override;
  void linear_backward(const LinearBack& back) override;
  void softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) override;
  void softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                        const Array& out) override;
  Array checked_index(const char* op, const Array& index, int64_t size) override;
  void gather(const Array& x, int dim, const Array& index, const Array& out) override;
  void scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
               const Array& out) override;
  void index_select(const Array& x, int dim, const Array& index, const Array& out) override;
  void index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                 const Array& out) override;
  void weigh(const SparseRows& rows, const Array& x, int dim, const Array& out) override;
  void sort(const Array& x, int dim, bool descending, const Array& values,
            const Array& indices) override;
  Array nonzero(const Array& x) override;
  void im2col(const Array& x, const Window& window, const Array& out) override;
  void col2im(const Array& columns, const Window& window, const Array& out) override;
  void pool(PoolOp op, const Array& x, const Window& window, const Array& out,
            const Array* indices) override;
  void max_pool_backward(const Array& g, const Window& window, const Array& indices,
                         const Array& out) override;
  void average_pool_backward(const Array& g, const Window& window, const Array& out) override;
  void random(const RandomFill& fill, int64_t first, const Array& out) override;
  void bias_activation(Activation activation, const Array* bias, const Array& z,
                       const Array& out) override;
  void normalize_rows(const RowNorm& norm, const Array& x, const Array& out, const Array& mean,
                      const Array& scale) override;
  void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                               const Array& mean, const Array& scale, const Array& g_x,
                               const Array* g_weight, const Array* g_bias) override;
  void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                          const Array& mean, const Array& variance) override;
  void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                   const Array& mean, const Array& variance, const Array* g_x,
                                   const Array* g_weight, const Array* g_bias) override;
  void attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                 const Array& out, const Array& log_sum) override;
  void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                          const Array& k, const Array& v, const Array& out, const Array& log_sum,
                          const Array& g_q, const Array& g_k, const Array& g_v) override;
  void log_likelihood(const Array& x, const Array& classes, const Array& out,
                      const Array& log_sum) override;
  void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                               const Array& log_sum, const Array& g_x) override;
  void recurrent_cell(CellKind kind, const CellStep& step) override;
  void recurrent_cell_backward(CellKind kind, const CellStepBack& step) override;
  void random_mask(const RandomFill& fill, int64_t first, double scale, const Array& x,
                   const Array& out) override;
  void update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
              std::span<const double> coefficients) override;
  void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
              const Array* error) override;
  void decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
              const Array& out) override;
};

/// Elements a thread takes at a time in elementwise work: large enough to hide the hand-over, small
/// enough to share out an array of a few hundred thousand elements.
inline constexpr int64_t kGrain = 32768;

}  // namespace hero::core::cpu
