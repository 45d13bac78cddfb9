#pragma once
// Backend: the kernels that a device has to provide. They are pure virtual functions, so a device
// that lacks one does not compile; chain, chain_sum and log_likelihood_in_place have a default.
//
// Callers (core/functions, autograd/ops) have checked devices, shapes and dtypes, and backends do
// not check them again. So a kernel throws only for what its comment says, and for memory or a
// device that fails. All arrays of a call lie on the backend's device, except where copy says
// otherwise. Results are arrays that the caller has allocated; a kernel overwrites them, unless it
// is said to add. Operands may have any strides, a stride of 0 among them, unless they are said to
// be contiguous; results do not overlap themselves. Dimensions may be empty. "Halves" are float16
// and bfloat16: sums of them are made in float32 and rounded once, as they are stored.
//
// On the CPU, a function has done its work when it returns, and its bits do not depend on the
// number of threads. A GPU's backend only queues the work on the calling thread's stream.
#include <span>

#include <hero/core/array.h>
#include <hero/core/device/backend_arguments.h>

namespace hero::core {

class Backend {
 public:
  virtual ~Backend() = default;

  /// \name Elements, one by one.
  /// \{
  /// out[i] = f(inputs[0][i], inputs[1][i], ...) for the functor that `op` names. Inputs are
  /// broadcast to out's shape and converted to the dtype `compute` as they are read, and results
  /// are converted to out's dtype. `out` may be an input, if it is the same view.
  virtual void map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) = 0;
  /// Some steps, each of which is a map whose functor computes in `compute` and is no predicate.
  /// The result of a step is one of `outs`, which have one shape and are no inputs, or some later
  /// step takes it, or both. Results between steps keep the dtype `compute`. It is made here of
  /// maps, for a device that has no way with fewer passes through memory.
  virtual void chain(std::span<const ChainStep> steps, std::span<const Operand> inputs,
                     DType compute, std::span<const Array> outs);
  /// The sums of rows of the one result of a chain, whose elements have this shape: as many rows,
  /// of neighbours, as out has elements, each in the order of reduce(). out has the dtype
  /// `compute`. It is made here of both.
  virtual void chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs,
                         DType compute, const Shape& shape, const Array& out);
  /// dst = src, broadcast to dst's shape and converted to its dtype. Here src may have strides
  /// below 0. A backend with memory of its own also copies from and to the host, and between its
  /// devices; both arrays have one shape and one dtype then.
  virtual void copy(const Array& src, const Array& dst) = 0;
  /// Every element of out becomes the value, converted to out's dtype.
  virtual void fill(const Array& out, Scalar value) = 0;
  /// Fills out with random numbers. An element's number depends only on the fill and on the
  /// element's position: the first in row-major order has the position `first`, the next one
  /// first + 1. So the parts of an array can be filled one by one.
  virtual void random(const RandomFill& fill, int64_t first, const Array& out) = 0;
  /// out = x * scale where the fill, which is bernoulli, draws true, and 0 elsewhere. The first
  /// element has the position `first`, as in random(). x and out have one shape and one floating
  /// dtype.
  virtual void random_mask(const RandomFill& fill, int64_t first, double scale, const Array& x,
                           const Array& out) = 0;
  /// One optimizer step over the elements of all items, whose parameters do not overlap. Parameters
  /// and states are changed in place from the gradients; an item's `low` is set to its parameter,
  /// rounded. `dtype` is that of the parameters and, beside no `low`, of the gradients. States have
  /// it, too, but are float32 for halves. `coefficients` are the fields of the functor's Step, in
  /// their order.
  virtual void update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
                      std::span<const double> coefficients) = 0;
  /// \}

  /// \name Reductions, scans and sorting.
  /// \{
  /// Reduces x over every dimension in which out has size 1; out has as many dimensions as x, and
  /// the same size in all others. Elements are converted to out's dtype (for halves to float32)
  /// before they are reduced. `center` has out's shape; it is given for sum_deviation and sum_exp
  /// only, else null. An empty dimension gives the sum 0, the product 1, any false and all true;
  /// max and min do not get one.
  virtual void reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) = 0;
  /// Adds to `words` the sum of |x| (sum_abs) or of x^2 (sum_square), without any rounding, in the
  /// words of core/functions/exact_sum.h. If words is int64 [exact::kWords], it takes the sum over
  /// all arrays; if it is int64 [xs.size(), exact::kWords], row i takes that over xs[i]. Each x has
  /// a floating dtype.
  virtual void exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) = 0;
  /// out = ExactSum::value() or root() of the sums that `words` holds: float64 of shape [] for
  /// words [exact::kWords], and [n] for words [n, exact::kWords].
  virtual void exact_result(SumResult result, const Array& words, const Array& out) = 0;
  /// Multiplies every x by limit_factor(max_norm, norm) (core/kernels/limit_norm.h) if that factor
  /// is below 1 or NaN. norm is float64 of shape [], and each x has a floating dtype.
  virtual void limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) = 0;
  /// The largest or smallest element along `dim`, and the position (int64) where it occurs first. A
  /// NaN wins over all numbers. x is not empty along dim; values and indices have size 1 there.
  virtual void arg_reduce(ArgOp op, const Array& x, int dim, const Array& values,
                          const Array& indices) = 0;
  /// out[.., i, ..] = the sum or product of x[.., 0, ..] to x[.., i, ..] along `dim` or, backward,
  /// of x[.., i, ..] to the last. out has x's shape, and its own dtype is computed in.
  virtual void scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) = 0;
  /// Sorts along `dim`, stably; NaN counts as the largest. values has x's shape and dtype, and
  /// indices (int64) are the positions in x from which they came. Of results that are shorter along
  /// dim the CPU finds only these first elements.
  virtual void sort(const Array& x, int dim, bool descending, const Array& values,
                    const Array& indices) = 0;
  /// \}

  /// \name Matrix products.
  /// \{
  /// out[i] = a[i] @ b[i] for a [B, M, K], b [B, K, N] and a contiguous out [B, M, N], all of one
  /// dtype, which is not bool. A batch stride of 0 repeats a matrix. Beside operands of bfloat16,
  /// the CPU also takes a float32 out where native_half_products() (core/functions/half_products.h)
  /// is true.
  virtual void matmul(const Array& a, const Array& b, const Array& out) = 0;
  /// Packs b [K, N], of a floating dtype, for many products with few rows.
  virtual PackedMatrix pack_matrix(const Array& b) = 0;
  /// out = a @ b with the bits of matmul, for a [M, K] and a contiguous out [M, N] of b's dtype.
  /// For halves the CPU also takes a float32 out. half_products() must be what it was when b was
  /// packed.
  virtual void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) = 0;
  /// out = activation(z) for z = x w^T + bias: x [M, K], w [N, K], bias [N] (null: none) and out
  /// [M, N], of one floating dtype; bias and out are contiguous. If `z` is not null, it is
  /// contiguous [M, N] and is set to z. A float32 out is taken as for matmul.
  virtual void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                      const Array& out, const Array* z) = 0;
  virtual void linear_backward(const LinearBack& back) = 0;
  /// z [M, N] += bias (null: none), then out = activation(z). A bias [N] has a number for each
  /// column. A bias [C, 1] has one for each row, and its rows begin again after every C rows of z.
  /// `out` may be z, if z is not needed any more. All contiguous, of one dtype: float32 or float64,
  /// on cuda also a half.
  virtual void bias_activation(Activation activation, const Array* bias, const Array& z,
                               const Array& out) = 0;
  /// \}

  /// \name Indexing.
  /// \{
  /// Returns `index` (int32 or int64) as int64. An index outside [0, size) is an Error that names
  /// `op`, the index and its position. The CPU throws it at once, for the first such index. A
  /// device that works behind the host's back throws it where the host next waits for the device or
  /// indexes there, for any such index, which counts as 0 until then.
  virtual Array checked_index(const char* op, const Array& index, int64_t size) = 0;
  /// For dim 0 and three dimensions, out[i][j][k] = x[index[i][j][k]][j][k], and alike for others.
  /// index, here and below, is int64 and has been checked; it has out's shape.
  virtual void gather(const Array& x, int dim, const Array& index, const Array& out) = 0;
  /// The reverse of gather: for dim 0, src[i][j][k] goes to out[index[i][j][k]][j][k] for every
  /// element of the index, in row-major order. It replaces what is there, so that the last one
  /// stays, or is added to it, multiplied with it, or the larger or smaller of both stays, in which
  /// NaN wins. src is at least as large as the index, and has out's dtype.
  virtual void scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
                       const Array& out) = 0;
  /// out[.., i, ..] = x[.., index[i], ..] along `dim`, for an index of at most one dimension.
  virtual void index_select(const Array& x, int dim, const Array& index, const Array& out) = 0;
  /// out[.., index[i], ..] += alpha * src[.., i, ..] along `dim`, for i from 0 on. src and out have
  /// one dtype.
  virtual void index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                         const Array& out) = 0;
  /// Multiplies by a sparse matrix along `dim`: out[.., i, ..] is the sum of weight *
  /// x[.., place, ..] over the entries of row i, in their order. x and out are contiguous and
  /// float32 or float64.
  virtual void weigh(const SparseRows& rows, const Array& x, int dim, const Array& out) = 0;
  /// The positions of the elements that are not zero, in row-major order, as the rows of a new
  /// int64 array [count, ndim]. An Error on meta, where there are no values to count.
  virtual Array nonzero(const Array& x) = 0;
  /// \}

  /// \name Windows (convolutions and pooling).
  /// \{
  /// Writes windows of x [N, C, H, W] as the columns of out [N, C * kh * kw, oh * ow], where oh and
  /// ow are window.places() of H and W. Positions in the padding count as 0.
  virtual void im2col(const Array& x, const Window& window, const Array& out) = 0;
  /// The transposed map: each element of out [N, C, H, W] becomes the sum of all elements of the
  /// columns that im2col would have copied from it.
  virtual void col2im(const Array& columns, const Window& window, const Array& out) = 0;
  /// Pools x [N, C, H, W] to out [N, C, oh, ow] of one dtype. Max pooling ignores the padding. NaN
  /// counts as the largest, and the first of equal elements is taken. If `indices` is not null, it
  /// gets the places where they were found: int64 positions y * W + x in the shape of out.
  virtual void pool(PoolOp op, const Array& x, const Window& window, const Array& out,
                    const Array* indices) = 0;
  /// The gradient of max pooling with respect to x: each element of out [N, C, H, W] becomes the
  /// sum, in order, of the g [N, C, oh, ow] whose index is its position, and 0 if there is none.
  /// All are contiguous.
  virtual void max_pool_backward(const Array& g, const Window& window, const Array& indices,
                                 const Array& out) = 0;
  /// The gradient of average pooling with respect to x, out [N, C, H, W], from g [N, C, oh, ow].
  virtual void average_pool_backward(const Array& g, const Window& window, const Array& out) = 0;
  /// \}

  /// \name Softmax, norms, attention, likelihoods and recurrent cells.
  /// Arrays are contiguous and of one dtype, which is float32 or float64 and on cuda also a half,
  /// unless it is said otherwise. The statistics of halves (mean, scale, log_sum) are float32.
  /// \{
  /// out = softmax or log_softmax of x along `dim`; any strides, and any floating dtype of out.
  virtual void softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) = 0;
  /// The gradient with respect to x, from the gradient g and the output y of softmax. Any strides
  /// and floating dtype.
  virtual void softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                                const Array& out) = 0;
  /// Normalises rows of x [M, N] into out (of x's dtype or, where that is float32, a half's), as
  /// RowNorm says; sets mean [M] (zeros unless centered) and scale [M] = 1 / sqrt(variance + eps).
  virtual void normalize_rows(const RowNorm& norm, const Array& x, const Array& out,
                              const Array& mean, const Array& scale) = 0;
  /// From the gradient g of out, in its dtype: sets the gradients of x, and of weight and bias [N],
  /// either of which may be null. mean and scale are those that normalize_rows set.
  virtual void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                                       const Array& mean, const Array& scale, const Array& g_x,
                                       const Array* g_weight, const Array* g_bias) = 0;
  /// out = (x - mean) / sqrt(variance + eps) * weight + bias for channels of x [N, C, L], float32
  /// or float64 on every device, and bfloat16 on the CPU alone. mean and the biased variance are
  /// [C] and set, unless norm.fixed; all that is [C] has the dtype of x, or is float32 beside
  /// bfloat16.
  virtual void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                                  const Array& mean, const Array& variance) = 0;
  /// From the gradient g of out: sets the gradients of x, weight and bias, each of which may be
  /// null.
  virtual void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                           const Array& mean, const Array& variance,
                                           const Array* g_x, const Array* g_weight,
                                           const Array* g_bias) = 0;
  /// out = softmax(scores of q k^T) v, and log_sum = log(sum(exp(scores))) of each query, for q
  /// [B, H, T, D], k [B, G, S, D], v [B, G, S, E], out [B, H, T, E] and a contiguous log_sum
  /// [B, H, T]. H / G neighbouring heads of q share one of k and v. The others may have any
  /// strides, but out's last one is 1. The CPU takes bfloat16 where native_half_products() is true.
  virtual void attention(const AttentionScores& scores, const Array& q, const Array& k,
                         const Array& v, const Array& out, const Array& log_sum) = 0;
  /// From the gradient g of out: sets those of q, k and v. The last strides of g_q, g_k and g_v are
  /// 1; other strides are free.
  virtual void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                                  const Array& k, const Array& v, const Array& out,
                                  const Array& log_sum, const Array& g_q, const Array& g_k,
                                  const Array& g_v) = 0;
  /// out[n] = x[n][classes[n]] - log_sum[n] and log_sum[n] = log(sum(exp(x[n]))), for x [N, C] and
  /// int64 classes [N] that have been checked.
  virtual void log_likelihood(const Array& x, const Array& classes, const Array& out,
                              const Array& log_sum) = 0;
  /// g_x[n][c] = g[n] * ((c == classes[n]) - exp(x[n][c] - log_sum[n])), for g [N] of log_sum's
  /// dtype. g_x may be x.
  virtual void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                                       const Array& log_sum, const Array& g_x) = 0;
  /// log_likelihood, and then log_likelihood_backward with x as its own g_x: the same bits, where a
  /// device can with one reading of x less.
  virtual void log_likelihood_in_place(const Array& g, const Array& x, const Array& classes,
                                       const Array& out, const Array& log_sum);
  virtual void recurrent_cell(CellKind kind, const CellStep& step) = 0;
  virtual void recurrent_cell_backward(CellKind kind, const CellStepBack& step) = 0;
  /// \}

  /// \name Codecs, in the formats of core/functions/codec.h.
  /// \{
  /// Encodes x [n], contiguous, float32 or a half, row by row: `row` elements become one row of
  /// bytes [rows, encoded_bytes(codec, row)], which is contiguous and aligned to 4 bytes. If error,
  /// contiguous float32 [n], is not null, x + error is encoded, and error becomes what is lost.
  virtual void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
                      const Array* error) = 0;
  /// The reverse of encode, into a contiguous out [n], float32 or a half.
  virtual void decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
                      const Array& out) = 0;
  /// \}
};

/// The backend of a device. An Error where the device is not available.
Backend& backend(Device device);

/// \name The backends of core.
/// \{
Backend& cpu_backend();   ///< that of the highest instruction set that this processor has
Backend& meta_backend();  ///< computes nothing, as its arrays have no bytes
/// \}

}  // namespace hero::core
