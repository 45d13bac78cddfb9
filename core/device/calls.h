#pragma once
// The calls of kernels: one struct for each family that a device implements
// (core/device/backend.h). A value of such a struct holds everything that a kernel needs (arrays,
// options and results), so that fetching and metering, which come before every kernel, are written
// once for all families:
//   arrays(visit)  calls visit() with all arrays that the kernel reads or writes. Among them are
//                  pointers, null where there is no array, and spans of arrays or operands.
//   cost()         how many flops and bytes the call asks for (core/profile/call_costs.cpp): a
//                  KernelCost, or an array of these if a call does several things.
//   Result         the type that the kernel returns, if that is not void.
//   kOnHost        true if only the CPU has a kernel.
// A call refers to arrays that live somewhere else, and is made where it is run:
//   backend(out.device()).run(call::Matmul{a, b, out});
//
// Callers (core/functions, autograd/ops) have checked devices, shapes and dtypes, and kernels do
// not check them again. So a kernel throws only the errors that its comment names, and those of
// exhausted memory or a failing device. All arrays of a call lie on one device, except where Copy
// says otherwise. Results are arrays that the caller has allocated; a kernel overwrites them,
// unless its comment says that it adds to them. Operands may have any strides, a stride of 0 among
// them, unless they are said to be contiguous; elements of a result do not overlap. Dimensions may
// be empty. An array that is given by pointer is optional, and null if absent. "Halves" are float16
// and bfloat16: their sums are computed in float32 and rounded once, when they are stored.
#include <optional>
#include <span>

#include <hero/core/array.h>
#include <hero/core/array/type_list.h>
#include <hero/core/device/backend_arguments.h>

namespace hero::core {

struct KernelCost;
namespace gguf {
struct BlockType;
}

namespace call {

/// \name Elements, one by one.
/// \{
/// out[i] = f(inputs[0][i], inputs[1][i], ...) for the functor that `op` names. Inputs are
/// broadcast to out's shape and converted to the dtype `compute` as they are read, and results
/// are converted to out's dtype. `out` may be an input, if it is the same view.
struct Map {
  MapOp op;                         ///< the functor
  std::span<const Operand> inputs;  ///< as many as the functor takes
  DType compute;                    ///< the dtype in which the functor computes
  const Array& out;                 ///< result

  void arrays(auto&& visit) const { visit(inputs, out); }
  KernelCost cost() const;
};
/// Several maps in one pass. Each step is a functor that computes in `compute` and is no predicate.
/// The result of a step is one of `outs`, or the argument of a later step, or both. Results between
/// steps keep the dtype `compute`.
struct FusedMap {
  std::span<const FusedMapStep> steps;  ///< in the order in which they are computed
  std::span<const Operand> inputs;      ///< broadcast to the shape of outs
  DType compute;                        ///< what the functors compute in
  std::span<const Array> outs;          ///< results, of one shape; none is an input

  void arrays(auto&& visit) const { visit(inputs, outs); }
  KernelCost cost() const;
};
/// The sums of the rows of a fused map's only result. The result, in row-major order, is cut into
/// as many rows as out has elements, and each row is summed in the order of Reduce.
struct FusedMapSum {
  std::span<const FusedMapStep> steps;  ///< as in FusedMap; the last one has the result
  std::span<const Operand> inputs;      ///< broadcast to `shape`
  DType compute;                        ///< what the functors compute in
  const Shape& shape;                   ///< that of the fused map's result
  const Array& out;                     ///< result, of the dtype `compute`

  void arrays(auto&& visit) const { visit(inputs, out); }
  KernelCost cost() const;
};
/// dst = src, broadcast to dst's shape and converted to its dtype. src may have strides below 0. A
/// device with memory of its own also copies from and to the host, and between devices of its kind;
/// then both arrays have the same shape and dtype.
struct Copy {
  const Array& src;  ///< on dst's device, or on another one as above
  const Array& dst;  ///< result

  void arrays(auto&& visit) const { visit(src, dst); }
  KernelCost cost() const;
};
/// Every element of out becomes the value, converted to out's dtype.
struct Fill {
  const Array& out;  ///< result
  Scalar value;

  void arrays(auto&& visit) const { visit(out); }
  KernelCost cost() const;
};
/// Fills out with random numbers. An element's number depends only on `fill` and on the element's
/// position: the first element in row-major order has the position `first`, the next one first + 1.
/// So the parts of an array can be filled one by one.
struct Random {
  const RandomFill& fill;
  int64_t first;     ///< position of out's first element
  const Array& out;  ///< result

  void arrays(auto&& visit) const { visit(out); }
  KernelCost cost() const;
};
/// out = x * scale for elements for which `fill`, which is bernoulli, draws true, and 0 for all
/// others. x and out have the same shape and floating dtype.
struct RandomMask {
  const RandomFill& fill;
  int64_t first;  ///< position of x's first element, as in Random
  double scale;
  const Array& x;
  const Array& out;  ///< result

  void arrays(auto&& visit) const { visit(x, out); }
  KernelCost cost() const;
};
/// One optimizer step over the elements of all items, whose parameters do not overlap. Parameters
/// and states are changed in place from the gradients; an item's `low` is set to its parameter,
/// rounded. Items hold addresses and no arrays, so the caller has to fetch offloaded arrays before.
struct Update {
  UpdateOp op;
  DType dtype;  ///< of the parameters and, beside no `low`, of the gradients; states: float32 for
                ///< halves, else this one
  std::span<const UpdateItem> items;
  std::span<const double> coefficients;  ///< the fields of the functor's Step, in their order

  void arrays(auto&&) const {}
  KernelCost cost() const;
};
/// \}

/// \name Reductions, scans and sorting.
/// \{
/// Reduces x over every dimension in which out has size 1; out has as many dimensions as x, and
/// the same size in all others. Elements are converted to out's dtype (for halves to float32)
/// before they are reduced. Over an empty dimension, the sum is 0, the product 1, any false and all
/// true; for max and min, callers pass no empty dimension.
struct Reduce {
  ReduceKind op;
  const Array& x;
  const Array* center;  ///< of out's shape; for sum_deviation and sum_exp only, else null
  const Array& out;     ///< result

  void arrays(auto&& visit) const { visit(x, center, out); }
  KernelCost cost() const;
};
/// Adds to `words` the sum of |x| (sum_abs) or of x^2 (sum_square), without any rounding, in the
/// words of core/functions/exact_sum.h. If words is int64 [exact::kWords], the sum is over all
/// arrays; if it is int64 [xs.size(), exact::kWords], the sum over xs[i] is added to row i.
struct ExactSum {
  ReduceKind op;
  std::span<const Array> xs;  ///< each of a floating dtype
  const Array& words;         ///< added to

  void arrays(auto&& visit) const { visit(xs, words); }
  KernelCost cost() const;
};
/// out = ExactSum::value() or root() of the sums that `words` holds: float64 of shape [] for
/// words [exact::kWords], and [n] for words [n, exact::kWords].
struct ExactResult {
  SumResult result;
  const Array& words;
  const Array& out;  ///< result

  void arrays(auto&& visit) const { visit(words, out); }
  KernelCost cost() const;
};
/// Multiplies every x by clip_factor(max_norm, norm) (core/kernels/clip_norm.h) if that factor
/// is below 1 or NaN.
struct ClipNorm {
  std::span<const Array> xs;  ///< each of a floating dtype; multiplied in place
  const Array& norm;          ///< float64 of shape []
  double max_norm;

  void arrays(auto&& visit) const { visit(xs, norm); }
  KernelCost cost() const;
};
/// The largest or smallest element along `dim`, and the position (int64) where it occurs first. A
/// NaN wins over all numbers.
struct ArgReduce {
  ArgOp op;
  const Array& x;  ///< not empty along dim
  int dim;
  const Array& values;   ///< result, of size 1 along dim
  const Array& indices;  ///< result, of size 1 along dim

  void arrays(auto&& visit) const { visit(x, values, indices); }
  KernelCost cost() const;
};
/// out[.., i, ..] = the sum or product of x[.., 0, ..] to x[.., i, ..] along `dim` or, backward,
/// of x[.., i, ..] to the last.
struct Scan {
  ScanOp op;
  Direction direction;
  const Array& x;
  int dim;
  const Array& out;  ///< result, of x's shape; the computation is in its dtype

  void arrays(auto&& visit) const { visit(x, out); }
  KernelCost cost() const;
};
/// Sorts along `dim`, stably; NaN counts as the largest. If the results are shorter than x along
/// dim, they get the first elements of the sorted dimension, and the CPU sorts no further.
struct Sort {
  const Array& x;
  int dim;
  bool descending;
  const Array& values;   ///< result, of x's shape and dtype
  const Array& indices;  ///< result, int64: the positions in x from which values came

  void arrays(auto&& visit) const { visit(x, values, indices); }
  KernelCost cost() const;
};
/// \}

/// \name Matrix products.
/// \{
/// out[i] = a[i] @ b[i], all of one dtype, which is not bool. Beside operands of bfloat16, the CPU
/// also takes a float32 out where native_half_products() (core/functions/half_products.h) is true.
struct Matmul {
  const Array& a;    ///< [B, M, K]; here and in b, a batch stride of 0 repeats a matrix
  const Array& b;    ///< [B, K, N]
  const Array& out;  ///< result, contiguous [B, M, N]

  void arrays(auto&& visit) const { visit(a, b, out); }
  KernelCost cost() const;
};
/// Packs b [K, N], of a floating dtype, for many products with few rows.
struct PackMatrix {
  using Result = PackedMatrix;
  const Array& b;

  void arrays(auto&& visit) const { visit(b); }
  KernelCost cost() const;
};
/// out = a @ b, bitwise identical to Matmul. half_products() must be the same as when b was packed.
struct MatmulPacked {
  const Array& a;  ///< [M, K]
  const PackedMatrix& b;
  const Array& out;  ///< result, contiguous [M, N] of b's dtype; for halves on the CPU also float32

  void arrays(auto&& visit) const { visit(a, b.panels, out); }
  KernelCost cost() const;
};
/// out = activation(z) for z = x w^T + bias, of one floating dtype. A float32 out is taken as for
/// Matmul.
struct Linear {
  Activation activation;
  const Array& x;     ///< [M, K]
  const Array& w;     ///< [N, K]
  const Array* bias;  ///< contiguous [N]
  const Array& out;   ///< result, contiguous [M, N]
  const Array* z;     ///< result, contiguous [M, N]

  void arrays(auto&& visit) const { visit(x, w, bias, out, z); }
  KernelCost cost() const;
};
/// The gradients of z = x w^T + bias. `g`, `x` and `w` may have any strides and have the same
/// floating dtype. A result that is defined is contiguous and of g's dtype; one that is undefined
/// is not computed.
struct LinearBack {
  Array g;       ///< [M, N]: the gradient of z
  Array x;       ///< [M, K]
  Array w;       ///< [N, K]
  Array g_x;     ///< result [M, K]: g w
  Array g_w;     ///< result [N, K]: g^T x
  Array g_bias;  ///< result [N]: the sums of g's columns
  /// If activation is gelu or gelu_tanh, x is activation(u) for a contiguous u [M, K], and g_x
  /// becomes the gradient of u. With `none`, u is undefined.
  Activation activation = Activation::none;
  Array u;

  void arrays(auto&& visit) const { visit(g, x, w, g_x, g_w, g_bias, u); }
  std::array<KernelCost, 3> cost() const;
};
/// z [M, N] += bias, then out = activation(z). A bias [N] has a number for each column. A bias [C,
/// 1] has one for each of C rows, and is repeated for every C rows of z. All arrays are contiguous
/// and of one dtype: float32 or float64, on cuda also a half.
struct BiasActivation {
  Activation activation;
  const Array* bias;
  const Array& z;    ///< changed in place
  const Array& out;  ///< result; may be z, if z is not needed any more

  void arrays(auto&& visit) const { visit(bias, z, out); }
  KernelCost cost() const;
};
/// \}

/// \name Indexing.
/// An index is int64 and has been checked, except that of CheckedIndex.
/// \{
/// Returns `index` (int32 or int64) as int64. An index outside [0, size) is an Error that names
/// `op`, the index and its position. The CPU throws it at once, for the first such index. A device
/// that works asynchronously throws it when the host next waits for the device or indexes there,
/// for any such index, which counts as 0 until then.
struct CheckedIndex {
  using Result = Array;
  const char* op;
  const Array& index;
  int64_t size;

  void arrays(auto&& visit) const { visit(index); }
  KernelCost cost() const;
};
/// For dim 0 of three dimensions, out[i][j][k] = x[index[i][j][k]][j][k], and likewise for other
/// dims.
struct Gather {
  const Array& x;
  int dim;
  const Array& index;  ///< of out's shape
  const Array& out;    ///< result

  void arrays(auto&& visit) const { visit(x, index, out); }
  KernelCost cost() const;
};
/// The reverse of Gather: for dim 0, src[i][j][k] goes to out[index[i][j][k]][j][k] for every
/// element of the index, in row-major order. By `mode` it replaces the element of out, so that the
/// last one stays, is added to it or multiplied with it, or the larger or smaller of both is kept,
/// in which NaN wins.
struct Scatter {
  ScatterMode mode;
  const Array& src;  ///< at least as large as the index, and of out's dtype
  int dim;
  const Array& index;
  const Array& out;  ///< changed in place

  void arrays(auto&& visit) const { visit(src, index, out); }
  KernelCost cost() const;
};
/// out[.., i, ..] = x[.., index[i], ..] along `dim`.
struct IndexSelect {
  const Array& x;
  int dim;
  const Array& index;  ///< of at most one dimension
  const Array& out;    ///< result

  void arrays(auto&& visit) const { visit(x, index, out); }
  KernelCost cost() const;
};
/// out[.., index[i], ..] += alpha * src[.., i, ..] along `dim`, for i from 0 on.
struct IndexAdd {
  const Array& src;  ///< of out's dtype
  int dim;
  const Array& index;
  Scalar alpha;
  const Array& out;  ///< added to

  void arrays(auto&& visit) const { visit(src, index, out); }
  KernelCost cost() const;
};
/// Multiplies by a sparse matrix along `dim`: out[.., i, ..] is the sum of weight *
/// x[.., place, ..] over the entries of row i, in their order.
struct SparseMatmul {
  const SparseRows& rows;
  const Array& x;  ///< contiguous, float32 or float64
  int dim;
  const Array& out;  ///< result, contiguous and of x's dtype

  void arrays(auto&& visit) const { visit(rows.starts, rows.places, rows.weights, x, out); }
  KernelCost cost() const;
};
/// The positions of the elements that are not zero, in row-major order, as the rows of a new
/// int64 array [count, ndim]. Throws an Error on meta, where there are no values to count.
struct Nonzero {
  using Result = Array;
  const Array& x;

  void arrays(auto&& visit) const { visit(x); }
  KernelCost cost() const;
};
/// \}

/// \name Windows (convolutions and pooling).
/// \{
/// Writes windows of x as the columns of out. oh and ow are window.places() of H and W. Positions
/// in the padding count as 0.
struct Im2col {
  const Array& x;  ///< [N, C, H, W]
  const Window& window;
  const Array& out;  ///< result [N, C * kh * kw, oh * ow]

  void arrays(auto&& visit) const { visit(x, out); }
  KernelCost cost() const;
};
/// The transpose of Im2col: each element of out becomes the sum of the elements of `columns` that
/// Im2col would have copied from it.
struct Col2im {
  const Array& columns;  ///< [N, C * kh * kw, oh * ow]
  const Window& window;
  const Array& out;  ///< result [N, C, H, W]

  void arrays(auto&& visit) const { visit(columns, out); }
  KernelCost cost() const;
};
/// Whether this device has Convolve, ConvolveBack or ConvolveWeight, as `map` says, for operands of
/// such shapes and dtypes, of which their values are not read. Callers make other convolutions of
/// products with columns of windows. False on a device without those three, and while costs are
/// metered for all but native products: a meter counts the columns and their products.
struct HasConvolution {
  using Result = bool;
  ConvolutionMap map;
  const Array& from;  ///< x [N, C, D, H, W] or [N, C, H, W]; for ConvolveBack y
  const Shape& to;    ///< the shape of the result: of y, x or w [O, C / groups, KD, KH, KW]
  const Window3& window;
  int64_t groups;

  void arrays(auto&&) const {}
  KernelCost cost() const;
};
/// Max pooling ignores the padding. NaN counts as the largest, and the first of equal elements is
/// taken.
struct Pool {
  PoolOp op;
  const Array& x;  ///< [N, C, H, W]
  const Window& window;
  const Array& out;      ///< result [N, C, oh, ow], of x's dtype
  const Array* indices;  ///< result of max pooling: int64 positions y * W + x, in the shape of out

  void arrays(auto&& visit) const { visit(x, out, indices); }
  KernelCost cost() const;
};
/// The gradient of max pooling with respect to x: each element of out becomes the sum, in order, of
/// the elements of g whose index is its position, and 0 if there are none. All arrays are
/// contiguous.
struct MaxPoolBack {
  const Array& g;  ///< [N, C, oh, ow]
  const Window& window;
  const Array& indices;  ///< the indices that Pool has set
  const Array& out;      ///< result [N, C, H, W]

  void arrays(auto&& visit) const { visit(g, indices, out); }
  KernelCost cost() const;
};
/// The gradient of average pooling with respect to x.
struct AveragePoolBack {
  const Array& g;  ///< [N, C, oh, ow]
  const Window& window;
  const Array& out;  ///< result [N, C, H, W]

  void arrays(auto&& visit) const { visit(g, out); }
  KernelCost cost() const;
};
/// \}

/// \name Softmax, norms, attention, likelihoods and recurrent cells.
/// Arrays are contiguous and of one dtype, which is float32 or float64 and on cuda also a half,
/// unless it is said otherwise. The statistics of halves (mean, scale, log_sum) are float32.
/// \{
/// out = softmax or log_softmax of x along `dim`. Arrays may have any strides, and out any floating
/// dtype.
struct Softmax {
  SoftmaxKind kind;
  const Array& x;
  int dim;
  const Array& out;  ///< result

  void arrays(auto&& visit) const { visit(x, out); }
  KernelCost cost() const;
};
/// The gradient with respect to x. Arrays may have any strides and any floating dtype.
struct SoftmaxBack {
  SoftmaxKind kind;
  const Array& g;  ///< the gradient of y
  const Array& y;  ///< the output of Softmax
  int dim;
  const Array& out;  ///< result

  void arrays(auto&& visit) const { visit(g, y, out); }
  KernelCost cost() const;
};
/// Normalises rows of x as RowNorm says.
struct NormalizeRows {
  const RowNorm& norm;
  const Array& x;      ///< [M, N]
  const Array& out;    ///< result [M, N], of x's dtype or, where that is float32, a half's
  const Array& mean;   ///< result [M]; zeros unless centered
  const Array& scale;  ///< result [M]: 1 / sqrt(variance + eps)

  void arrays(auto&& visit) const { norm.arrays(visit), visit(x, out, mean, scale); }
  KernelCost cost() const;
};
/// The gradients of x, weight and bias.
struct NormalizeRowsBack {
  const RowNorm& norm;
  const Array& g;         ///< the gradient of out, in its dtype
  const Array& x;         ///< [M, N]
  const Array& mean;      ///< as NormalizeRows has set it
  const Array& scale;     ///< as NormalizeRows has set it
  const Array& g_x;       ///< result [M, N]
  const Array* g_weight;  ///< result [N]
  const Array* g_bias;    ///< result [N]

  void arrays(auto&& visit) const {
    norm.arrays(visit), visit(g, x, mean, scale, g_x, g_weight, g_bias);
  }
  KernelCost cost() const;
};
/// out = (x - mean) / sqrt(variance + eps) * weight + bias for channels of x, float32 or float64 on
/// every device, and bfloat16 on the CPU alone. All arrays [C] have the dtype of x, or are float32
/// beside bfloat16.
struct NormalizeChannels {
  const ChannelNorm& norm;
  const Array& x;         ///< [N, C, L]
  const Array& out;       ///< result [N, C, L]
  const Array& mean;      ///< [C]; a result, unless norm.fixed
  const Array& variance;  ///< [C], the biased one; a result, unless norm.fixed

  void arrays(auto&& visit) const { visit(norm.weight, norm.bias, x, out, mean, variance); }
  KernelCost cost() const;
};
/// The gradients of x, weight and bias.
struct NormalizeChannelsBack {
  const ChannelNorm& norm;
  const Array& g;         ///< the gradient of out
  const Array& x;         ///< [N, C, L]
  const Array& mean;      ///< as in NormalizeChannels
  const Array& variance;  ///< as in NormalizeChannels
  const Array* g_x;       ///< result [N, C, L]
  const Array* g_weight;  ///< result [C]
  const Array* g_bias;    ///< result [C]

  void arrays(auto&& visit) const {
    visit(norm.weight, norm.bias, g, x, mean, variance, g_x, g_weight, g_bias);
  }
  KernelCost cost() const;
};
/// out = softmax(scores of q k^T) v, and log_sum = log(sum(exp(scores))) of each query. H / G
/// neighbouring heads of q share one of k and v. The CPU takes bfloat16 where
/// native_half_products() is true.
struct Attention {
  const AttentionScores& scores;
  const Array& q;        ///< [B, H, T, D] of any strides
  const Array& k;        ///< [B, G, S, D] of any strides
  const Array& v;        ///< [B, G, S, E] of any strides
  const Array& out;      ///< result [B, H, T, E], of any strides but the last, which is 1
  const Array& log_sum;  ///< result, contiguous [B, H, T]

  void arrays(auto&& visit) const { visit(scores.mask, scores.bias, q, k, v, out, log_sum); }
  KernelCost cost() const;
};
/// The gradients of q, k and v. The last strides of these results are 1; other strides are free.
struct AttentionBack {
  const AttentionScores& scores;
  const Array& g;        ///< the gradient of out
  const Array& q;        ///< as in Attention, as are k and v
  const Array& k;        ///< [B, G, S, D]
  const Array& v;        ///< [B, G, S, E]
  const Array& out;      ///< as Attention has set it
  const Array& log_sum;  ///< as Attention has set it
  const Array& g_q;      ///< result
  const Array& g_k;      ///< result
  const Array& g_v;      ///< result

  void arrays(auto&& visit) const {
    visit(scores.mask, scores.bias, g, q, k, v, out, log_sum, g_q, g_k, g_v);
  }
  KernelCost cost() const;
};
/// out[n] = x[n][classes[n]] - log(sum(exp(x[n]))). log_sum[n] are the two terms of that logarithm
/// (core/kernels/log_sum.h).
struct LogLikelihood {
  const Array& x;        ///< [N, C]
  const Array& classes;  ///< int64 [N] that have been checked
  const Array& out;      ///< result [N]
  const Array& log_sum;  ///< result [N, 2]

  void arrays(auto&& visit) const { visit(x, classes, out, log_sum); }
  KernelCost cost() const;
};
/// g_x[n][c] = g[n] * ((c == classes[n]) - exp(x[n][c] - log_sum[n][0] - log_sum[n][1])).
struct LogLikelihoodBack {
  const Array& g;        ///< [N], of log_sum's dtype
  const Array& x;        ///< [N, C]
  const Array& classes;  ///< as in LogLikelihood
  const Array& log_sum;  ///< as LogLikelihood has set it
  const Array& g_x;      ///< result [N, C]; may be x

  void arrays(auto&& visit) const { visit(g, x, classes, log_sum, g_x); }
  KernelCost cost() const;
};
/// LogLikelihood, and then LogLikelihoodBack with x as its own g_x: bitwise identical to the two
/// calls, but some devices read x one time less.
struct LogLikelihoodInPlace {
  const Array& g;        ///< [N], of log_sum's dtype
  const Array& x;        ///< [N, C]; becomes its own gradient
  const Array& classes;  ///< as in LogLikelihood
  const Array& out;      ///< result [N]
  const Array& log_sum;  ///< result [N, 2]

  void arrays(auto&& visit) const { visit(g, x, classes, out, log_sum); }
  std::array<KernelCost, 2> cost() const;
};
/// One step of a recurrent cell for N sequences with H hidden units, in which all matrix products
/// have been computed. A row of gates consists of blocks of H columns in PyTorch's order i, f, g, o
/// (lstm) or r, z, n (gru). All arrays have one dtype, with one exception: for halves on the CPU,
/// only h, h_before, g_output, g_of_x and g_of_h are of halves, and the others are float32.
struct CellStep {
  Required<CellKind> kind;
  Array of_x = {};      ///< [N, gates * H]: products with x, plus biases; becomes the gates' values
  Array of_h = {};      ///< [N, gates * H]: products with h_before; for gru, plus their bias
  Array h_before = {};  ///< [N, H], for gru only
  Array c_before = {};  ///< [N, H], for lstm only
  Array h = {};         ///< result [N, H]
  Array c = {};         ///< result [N, H], for lstm only

  void arrays(auto&& visit) const { visit(of_x, of_h, h_before, c_before, h, c); }
  KernelCost cost() const;
};
/// The gradients of a CellStep, whose arrays are given as the step left them.
struct CellStepBack {
  Required<CellKind> kind;
  Array gates = {};             ///< [N, gates * H]: the values that the step left in of_x
  Array of_h = {};              ///< [N, gates * H], for gru only, which needs its block n
  Array h_before = {};          ///< [N, H], for gru only
  Array c_before = {}, c = {};  ///< [N, H], for lstm only
  /// [N, H]: the gradient of h from the step after this one. For gru, the kernel adds g_c to it.
  Array g_h = {};
  Array g_output = {};  ///< [N, H]: the gradient of h as an output, which is added; or undefined
  /// [N, H]. lstm: the gradient of c, which becomes that of c_before. gru: the part of h's gradient
  /// that came through no product, which becomes the same part of h_before's gradient.
  Array g_c = {};
  Array g_of_x = {};  ///< result [N, gates * H]
  Array g_of_h = {};  ///< result [N, gates * H], for gru only: for lstm it equals g_of_x

  void arrays(auto&& visit) const {
    visit(gates, of_h, h_before, c_before, c, g_h, g_output, g_c, g_of_x, g_of_h);
  }
  KernelCost cost() const;
};
/// \}

/// \name Codecs, in the formats of core/functions/codec.h.
/// \{
/// Encodes x row by row: `row` elements become one row of bytes. If error is not null, x + error is
/// encoded, and error becomes the difference that encoding loses.
struct Encode {
  Codec codec;
  const Array& x;  ///< contiguous [n], float32 or a half
  int64_t row;
  const Array& bytes;  ///< result [rows, encoded_bytes(codec, row)], contiguous, aligned to 4 bytes
  const Array* error;  ///< contiguous float32 [n]

  void arrays(auto&& visit) const { visit(x, bytes, error); }
  KernelCost cost() const;
};
/// The reverse of Encode.
struct Decode {
  Codec codec;
  const Array& bytes;  ///< as in Encode
  int64_t row;
  DecodeMode mode;
  const Array& out;  ///< result, contiguous [n], float32 or a half

  void arrays(auto&& visit) const { visit(bytes, out); }
  KernelCost cost() const;
};
/// \}

/// \name Kernels of the CPU alone, and of meta where it is planned for the CPU.
/// Other devices do not have them, as kOnHost says: there, callers compose the function of other
/// kernels, and running such a call is an Error.
/// \{
/// out[.., i, ..] = b[.., i, ..] + a[.., j, ..] out[.., j, ..] along `dim`, where j is i - 1 or,
/// backward, i + 1; the first element is that of b. Computed in double.
struct Recurrence {
  static constexpr bool kOnHost = true;
  const Array& a;  ///< float32 or float64
  const Array& b;  ///< of a's shape and dtype
  int dim;
  Direction direction;
  const Array& out;  ///< result, of a's shape and dtype

  void arrays(auto&& visit) const { visit(a, b, out); }
  KernelCost cost() const;
};
/// For each line of x along `dim` the position of the element that would be element k of the sorted
/// line (as Sort sorts).
struct KthPositions {
  static constexpr bool kOnHost = true;
  const Array& x;  ///< not empty along dim
  int dim;
  int64_t k;
  const Array& positions;  ///< result, int64, of size 1 along dim

  void arrays(auto&& visit) const { visit(x, positions); }
  KernelCost cost() const;
};
/// The largest or smallest element up to each one along `dim`, and its position: of equal elements
/// the last one. NaN wins over all numbers.
struct RunningExtremes {
  static constexpr bool kOnHost = true;
  ArgOp op;
  const Array& x;
  int dim;
  const Array& values;     ///< result, of x's shape and dtype
  const Array& positions;  ///< result, int64, of x's shape

  void arrays(auto&& visit) const { visit(x, values, positions); }
  KernelCost cost() const;
};
/// Samples of images in two or three dimensions at points. Here and in its gradients, all arrays
/// are contiguous and of one dtype, float32 or float64; core/functions/grid_sample.h has their
/// sizes.
struct GridSample {
  static constexpr bool kOnHost = true;
  const GridSampling& how;
  const Array& x;     ///< [N, C, sizes..]
  const Array& grid;  ///< [N, points.., dims]
  const Array& out;   ///< result [N, C, points..]

  void arrays(auto&& visit) const { visit(x, grid, out); }
  KernelCost cost() const;
};
/// The gradient of the images.
struct GridSampleBackX {
  static constexpr bool kOnHost = true;
  const GridSampling& how;
  const Array& g;     ///< [N, C, points..]: the gradient of the samples
  const Array& grid;  ///< [N, points.., dims]
  const Array& out;   ///< result [N, C, sizes..]

  void arrays(auto&& visit) const { visit(g, grid, out); }
  KernelCost cost() const;
};
/// The gradient of the points.
struct GridSampleBackGrid {
  static constexpr bool kOnHost = true;
  const GridSampling& how;
  const Array& g;     ///< [N, C, points..]: the gradient of the samples
  const Array& x;     ///< [N, C, sizes..]
  const Array& grid;  ///< [N, points.., dims]
  const Array& out;   ///< result [N, points.., dims]

  void arrays(auto&& visit) const { visit(g, x, grid, out); }
  KernelCost cost() const;
};

/// \name Convolutions without columns of windows in memory, where HasConvolution says so.
/// Of images or volumes x [N, C, H, W] or [N, C, D, H, W] to y [N, O, places..]; all of one dtype.
/// Rows of w [O, KD C / groups KH KW] are a tap of the depth, a channel, and a tap of height and
/// width. All but x is contiguous, and so is x in groups. Products are native where x is bfloat16.
/// \{
/// y = w times the windows of x, plus the bias, then the activation (none or relu). The bits are
/// those of a product with columns.
struct Convolve {
  static constexpr bool kOnHost = true;
  const Array& x;
  const Array& w;
  const Window3& window;
  int64_t groups;
  const Array* bias;  ///< contiguous [O]
  Activation activation;
  const Array& y;  ///< result

  void arrays(auto&& visit) const { visit(x, w, bias, y); }
  KernelCost cost() const;
};
/// The gradient of the input, plus the bias. In float32 the bits are those of columns that Col2im
/// adds up; a native product is one sum over the taps that reach a place, in order, and for each
/// tap the channels of y in the group. Returns false, with nothing done, if a weight is not finite.
struct ConvolveBack {
  static constexpr bool kOnHost = true;
  using Result = bool;
  const Array& y;  ///< the gradient of the output
  const Array& w;  ///< [O, C / groups KH KW]
  const Window3& window;
  int64_t groups;
  const Array* bias;  ///< contiguous [C]
  const Array& x;     ///< result [N, C, H, W]

  void arrays(auto&& visit) const { visit(y, w, bias, x); }
  KernelCost cost() const;
};
/// The gradient of the weight: the sum over all images of y times the transposed windows of x. In
/// float32 the bits are those of one product with columns for every `chain` images, or of volumes
/// for every `chain` planes of the output, which are added in order to zeros. Native ones are
/// products for as many images as have padded copies of 2 MiB, added in order and rounded once; an
/// image with an odd number of places counts as one with a zero behind them. In groups there is a
/// product for every image.
struct ConvolveWeight {
  static constexpr bool kOnHost = true;
  const Array& x;
  const Array& y;  ///< the gradient of the output
  const Window3& window;
  int64_t groups;
  int64_t chain;
  const Array& w;  ///< result, contiguous

  void arrays(auto&& visit) const { visit(x, y, w); }
  KernelCost cost() const;
};
/// \}

/// y = x w^T in float32, of a matrix w in blocks of GGUF; core/quantized.h says how it is summed.
struct QuantizedProduct {
  static constexpr bool kOnHost = true;
  const gguf::BlockType& type;
  const Array& x;  ///< float32 [.., K], contiguous, as are the others; K > 0
  const Array& w;  ///< uint8 [N, K / type.elements * type.bytes]
  const Array& y;  ///< result, float32 [.., N], not empty

  void arrays(auto&& visit) const { visit(x, w, y); }
  KernelCost cost() const;
};

/// \name Factors of matrices and systems of equations (core/functions/linalg.h).
/// Matrices are the last two dimensions of arrays of one dtype, float32 or float64; the dimensions
/// before are batches, those of results. Operands broadcast to these, and may have any strides;
/// results are contiguous and not empty. A Result of a number is the first matrix of the batch, in
/// row-major order, for which the comment does not hold.
/// \{
/// P a = L U in place of a [.., M, N] by partial pivoting, also of a singular matrix: U in the
/// upper triangle, L, whose diagonal is 1, below it. Row k was exchanged with row pivots[k], k
/// rising. The matrix is regular.
struct FactorLU {
  static constexpr bool kOnHost = true;
  using Result = std::optional<int64_t>;
  const Array& a;       ///< changed in place
  const Array& pivots;  ///< result, int64 [.., min(M, N)]

  void arrays(auto&& visit) const { visit(a, pivots); }
  KernelCost cost() const;
};
/// Puts X with a X = b, or with a^T X = b if `turned`, in place of b, by the factors of a.
struct SolveLU {
  static constexpr bool kOnHost = true;
  const Array& factors;  ///< [.., N, N], as FactorLU leaves them
  const Array& pivots;   ///< [.., N]
  bool turned;
  const Array& b;  ///< [.., N, K], changed in place

  void arrays(auto&& visit) const { visit(factors, pivots, b); }
  KernelCost cost() const;
};
/// Puts X with a X = b in place of b, a [.., N, N] being triangular.
struct SolveTriangular {
  static constexpr bool kOnHost = true;
  bool upper;  ///< which triangle is read
  bool unit;   ///< the diagonal counts as 1
  const Array& a;
  const Array& b;  ///< [.., N, K], changed in place

  void arrays(auto&& visit) const { visit(a, b); }
  KernelCost cost() const;
};
/// The lower triangular L [.., N, N] of a = L L^T, of which the lower triangle is read. The matrix
/// is positive definite.
struct FactorCholesky {
  static constexpr bool kOnHost = true;
  using Result = std::optional<int64_t>;
  const Array& a;
  const Array& l;  ///< result

  void arrays(auto&& visit) const { visit(a, l); }
  KernelCost cost() const;
};
/// 0 for each matrix of which FactorCholesky finds a factor, and else the order of its first
/// leading minor that is not positive.
struct CholeskyFaults {
  static constexpr bool kOnHost = true;
  const Array& a;       ///< [.., N, N]
  const Array& faults;  ///< result, int32 [..]

  void arrays(auto&& visit) const { visit(a, faults); }
  KernelCost cost() const;
};
/// Householder's a = Q R of a [.., M, N].
struct FactorQR {
  static constexpr bool kOnHost = true;
  const Array& a;
  const Array& q;  ///< result [.., M, min(M, N)], orthonormal columns
  const Array& r;  ///< result [.., min(M, N), N], upper triangular

  void arrays(auto&& visit) const { visit(a, q, r); }
  KernelCost cost() const;
};
/// X that minimises |a X - b|, M >= N, by QR with column pivoting. The matrix has full column rank.
struct LeastSquares {
  static constexpr bool kOnHost = true;
  using Result = std::optional<int64_t>;
  const Array& a;  ///< [.., M, N]
  const Array& b;  ///< [.., M, K]
  const Array& x;  ///< result [.., N, K]

  void arrays(auto&& visit) const { visit(a, b, x); }
  KernelCost cost() const;
};
/// a = u diag(s) vh of a [.., M, N], K = min(M, N). The matrix is finite. An Error if singular
/// values do not converge, which no matrix is known to bring about.
struct FactorSVD {
  static constexpr bool kOnHost = true;
  using Result = std::optional<int64_t>;
  const Array& a;
  const Array& u;   ///< result [.., M, K], orthonormal columns
  const Array& s;   ///< result [.., K], descending
  const Array& vh;  ///< result [.., K, N], orthonormal rows

  void arrays(auto&& visit) const { visit(a, u, s, vh); }
  KernelCost cost() const;
};
/// The eigenvalues and eigenvectors of symmetric matrices a [.., N, N], of which the lower triangle
/// is read, which is finite. An Error if they do not converge, as for FactorSVD.
struct FactorEigh {
  static constexpr bool kOnHost = true;
  using Result = std::optional<int64_t>;
  const Array& a;
  const Array& values;   ///< result [.., N], ascending
  const Array& vectors;  ///< result [.., N, N], orthonormal columns

  void arrays(auto&& visit) const { visit(a, values, vectors); }
  KernelCost cost() const;
};
/// \}
/// \}

}  // namespace call

/// All families of kernels.
using Calls =
    TypeList<call::Map, call::FusedMap, call::FusedMapSum, call::Copy, call::Fill, call::Random,
             call::RandomMask, call::Update, call::Reduce, call::ExactSum, call::ExactResult,
             call::ClipNorm, call::ArgReduce, call::Scan, call::Sort, call::Matmul,
             call::PackMatrix, call::MatmulPacked, call::Linear, call::LinearBack,
             call::BiasActivation, call::CheckedIndex, call::Gather, call::Scatter,
             call::IndexSelect, call::IndexAdd, call::SparseMatmul, call::Nonzero, call::Im2col,
             call::Col2im, call::HasConvolution, call::Pool, call::MaxPoolBack,
             call::AveragePoolBack, call::Softmax, call::SoftmaxBack, call::NormalizeRows,
             call::NormalizeRowsBack, call::NormalizeChannels, call::NormalizeChannelsBack,
             call::Attention, call::AttentionBack, call::LogLikelihood, call::LogLikelihoodBack,
             call::LogLikelihoodInPlace, call::CellStep, call::CellStepBack, call::Encode,
             call::Decode, call::Recurrence, call::KthPositions, call::RunningExtremes,
             call::GridSample, call::GridSampleBackX, call::GridSampleBackGrid, call::Convolve,
             call::ConvolveBack, call::ConvolveWeight, call::QuantizedProduct, call::FactorLU,
             call::SolveLU, call::SolveTriangular, call::FactorCholesky, call::CholeskyFaults,
             call::FactorQR, call::LeastSquares, call::FactorSVD, call::FactorEigh>;

/// \cond
template <class Call>
struct ResultOfCall {
  using type = void;
};
template <class Call>
requires requires { typename Call::Result; }
struct ResultOfCall<Call> {
  using type = typename Call::Result;
};
/// \endcond

/// What a kernel returns for a call of this type: Call::Result, or void if there is none.
template <class Call>
using ResultOf = typename ResultOfCall<Call>::type;

}  // namespace hero::core
