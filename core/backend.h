#pragma once
// Backend: the kernels that a device has to provide. All functions are pure virtual, so a device
// that lacks one does not compile. Callers have checked shapes and dtypes; backends do not check
// them again.
#include <array>
#include <cstdint>
#include <span>

#include <hero/core/array.h>

namespace hero::core {

/// One input of an elementwise kernel: an array, broadcast to the output's shape, or a number.
struct Operand {
  Operand(const Array& input) : array(&input) {}
  Operand(Scalar value) : scalar(value) {}
  const Array* array = nullptr;
  Scalar scalar;
};

/// Position of a functor in kernels::MapList (core/kernels/elementwise.h).
struct MapOp {
  uint16_t index;
};

/// Position of a functor in kernels::UpdateList (core/kernels/updates.h).
struct UpdateOp {
  uint16_t index;
};

enum class ReduceKind : uint8_t {
  sum,
  prod,
  max,
  min,
  any,
  all,
  sum_abs,        ///< sum of |x|
  sum_square,     ///< sum of x^2
  sum_deviation,  ///< sum of (x - center)^2
  sum_exp,        ///< sum of exp(x - center)
};

enum class ScanOp : uint8_t { sum, prod };
enum class Direction : uint8_t { forward, backward };
enum class ArgOp : uint8_t { max, min };
enum class ScatterMode : uint8_t { assign, add, multiply, maximum, minimum };
enum class PoolOp : uint8_t { max, average };
enum class SoftmaxKind : uint8_t { softmax, log_softmax };
enum class SumResult : uint8_t { value, root };

/// How floating numbers become bytes; core/functions/codec.h has the format of each.
enum class Codec : uint8_t {
  sign1,     ///< one bit an element, and a scale for all
  int8,      ///< eight bits, and a scale for every 256 elements
  int4,      ///< four bits, and a scale for every 256 elements
  fp8_e4m3,  ///< eight bits with four of exponent, and a scale for every 256 elements
  fp8_e5m2,  ///< eight bits with five of exponent, and a scale for every 256 elements
};
enum class DecodeMode : uint8_t { assign, add, sum };

/// Sliding windows over the last two dimensions of [N, C, H, W] (H = 1 for one dimension).
struct Window {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};
  bool count_padding = true;  ///< average pooling divides by the whole window
  /// How many positions at the end of the input no place of the columns counts on: a transposed
  /// convolution's output may be longer than its places ask for. im2col and col2im only.
  int64_t surplus[2] = {0, 0};

  /// Positions that the taps span along an axis (0: rows, 1: columns).
  int64_t reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  /// Places of columns along an axis of an input of `size`.
  int64_t places(int axis, int64_t size) const {
    return (size - surplus[axis] + 2 * padding[axis] - reach(axis)) / stride[axis] + 1;
  }
};

/// What follows a product of rows in place.
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };

/// Gradients of rows z = x w^T + bias: from g [M, N], that of z, with x [M, K] and w [N, K], of any
/// strides and one floating dtype. What is defined of the g_.. is set, contiguous and of g's dtype.
struct LinearBack {
  Array g, x, w;
  Array g_x;     ///< [M, K]: g w
  Array g_w;     ///< [N, K]: g^T x
  Array g_bias;  ///< [N]: sums of g's columns
  /// Where x is gelu or gelu_tanh of rows u, contiguous: g_x is the gradient of u. Otherwise none.
  Activation activation = Activation::none;
  Array u;
};

/// A sparse matrix: row i has weights[e] in column places[e] for starts[i] <= e < starts[i + 1].
struct SparseRows {
  Array starts;   ///< int64 [rows + 1]
  Array places;   ///< int64
  Array weights;  ///< of the operands' dtype
};

/// How scores become probabilities: score * scale + bias, -inf where the mask is false or, if
/// causal, where the key comes after the query.
struct AttentionScores {
  double scale = 1.0;
  bool is_causal = false;
  const Array* mask = nullptr;  ///< bool [B, H, T, S], any strides
  const Array* bias = nullptr;  ///< [B, H, T, S], any strides
  int64_t first_query = 0;      ///< the first query's position among the keys, for is_causal; >= 0
};

/// Rows x [M, N] brought to mean 0 (if centered) and mean square 1, then scaled and shifted.
struct RowNorm {
  const Array* weight = nullptr;  ///< [N]
  const Array* bias = nullptr;    ///< [N]
  double eps = 0.0;
  bool centered = true;
  /// forward: [M, N] of x's dtype or, beside float32, of a half's; added to x before all else
  const Array* residual = nullptr;
  const Array* sum = nullptr;    ///< forward, with residual: x + residual, the rows normalised
  const Array* g_sum = nullptr;  ///< backward: [M, N], added to the gradient of x
  /// backward of float32: [M, N] of a half's dtype; set to the gradient of x, rounded
  const Array* g_residual = nullptr;
};

/// Channels of x [N, C, L], each brought to mean 0 and mean square 1 over N and L, then scaled and
/// shifted.
struct ChannelNorm {
  const Array* weight = nullptr;  ///< [C]
  const Array* bias = nullptr;    ///< [C]
  double eps = 0.0;
  bool fixed = false;  ///< mean and variance are given, and constant; else they are those of x
};

/// A matrix [K, N] in the order in which a device's products read it; see Backend::pack_matrix.
struct PackedMatrix {
  int64_t rows = 0, columns = 0;
  Array panels;  ///< one dimension, of the matrix' dtype
};

enum class CellKind : uint8_t { lstm, gru };

/// One step of a recurrent cell, all [N, ..] contiguous; gates are blocks of H columns, in the
/// order i, f, g, o (lstm) or r, z, n (gru).
struct CellStep {
  Array of_x;                ///< sums over x with biases; becomes the gates' values
  Array of_h;                ///< sums over h; backward of gru needs its block n
  Array h_before, c_before;  ///< c: lstm only
  Array h, c;
};
struct CellStepBack {
  Array gates, of_h, h_before, c_before, c;  ///< as left by the step
  Array g_h;                                 ///< gradient of h
  Array g_c;  ///< lstm: of c, becomes that of c_before; gru: set to the direct part of h_before's
  Array g_of_x, g_of_h;  ///< set: gradients of the sums; of_h's for gru only
};

/// States that a functor of kernels::UpdateList keeps at most.
inline constexpr int kMaxUpdateStates = 3;

/// One parameter of an optimizer step, its gradient and as many states as the functor keeps: the
/// first of the n elements that each has, one behind the other.
struct UpdateItem {
  int64_t n = 0;
  std::byte* param = nullptr;
  const std::byte* grad = nullptr;
  std::array<std::byte*, kMaxUpdateStates> states = {};
  const double* norms = nullptr;  ///< two numbers on the device, for functors that take them
  /// A copy of a float32 parameter in 16 bits, of dtype `low_dtype`, which is also the gradient's;
  /// none where it is null. No functor has norms and a copy.
  std::byte* low = nullptr;
  DType low_dtype = DType::float32;
};

/// Which numbers a random fill draws.
struct RandomFill {
  enum class Kind : uint8_t { uniform, normal, integer, bernoulli, exponential };
  Kind kind = Kind::uniform;
  uint64_t seed = 0;
  uint64_t stream = 0;
  double a = 0.0;  ///< low, mean, probability or rate
  double b = 1.0;  ///< high or standard deviation
  int64_t low = 0, high = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// out[i] = f(inputs[..][i]); inputs broadcast to out's shape and are converted to `compute` as
  /// they are read. `out` may be an input.
  virtual void map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) = 0;
  /// Copies with conversion; src broadcasts to dst's shape. A backend with memory of its own also
  /// copies from and to the host, and between its devices, one shape and dtype.
  virtual void copy(const Array& src, const Array& dst) = 0;
  virtual void fill(const Array& out, Scalar value) = 0;
  /// Reduces x over every dimension in which out has size 1; out has x's number of dimensions.
  /// `center` (may be null) has out's shape.
  virtual void reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) = 0;
  /// words += the sum of |x| (sum_abs) or x^2 (sum_square) without any rounding, as ExactSum has it
  /// (core/functions/exact_sum.h): over all arrays where words is int64 [exact::kWords], over each
  /// by itself where it is [xs.size(), exact::kWords]. Each x is of any floating dtype and layout.
  virtual void exact_sum(ReduceKind op, std::span<const Array> xs, const Array& words) = 0;
  /// out = ExactSum::value() or root() of the sums that words hold: float64 of shape [] for words
  /// [exact::kWords], [n] for [n, exact::kWords].
  virtual void exact_result(SumResult result, const Array& words, const Array& out) = 0;
  /// Every x *= limit_factor(max_norm, norm) (core/kernels/limit_norm.h) where that is not 1 or
  /// more; norm is float64 of shape [], each x of any floating dtype and layout.
  virtual void limit_norm(std::span<const Array> xs, const Array& norm, double max_norm) = 0;
  /// Largest or smallest element along `dim` and the position (int64) of its first occurrence; NaN
  /// wins. values and indices have size 1 at `dim`.
  virtual void arg_reduce(ArgOp op, const Array& x, int dim, const Array& values,
                          const Array& indices) = 0;
  /// Running sum or product along `dim`.
  virtual void scan(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) = 0;
  /// out[b] = a[b] @ b[b]: a [B, M, K], b [B, K, N], out [B, M, N] contiguous, of one dtype but
  /// bool; a batch stride of 0 repeats an operand. Halves are added up as float32.
  virtual void matmul(const Array& a, const Array& b, const Array& out) = 0;
  /// b [K, N] of any strides, float32 or float64 (on cuda halves too), packed for many products
  /// with few rows each.
  virtual PackedMatrix pack_matrix(const Array& b) = 0;
  /// out = a @ b with the bits of matmul: a [M, K] of any strides, out [M, N] contiguous.
  virtual void matmul_packed(const Array& a, const PackedMatrix& b, const Array& out) = 0;
  /// out [M, N] = activation of z = x w^T + bias: x [M, K] and w [N, K] of any strides, bias [N]
  /// (may be null) and out contiguous, of one floating dtype. z [M, N] contiguous is stored where
  /// it is not null.
  virtual void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                      const Array& out, const Array* z) = 0;
  virtual void linear_backward(const LinearBack& back) = 0;
  virtual void softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) = 0;
  /// Gradient with respect to x from the gradient g and the output y.
  virtual void softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                                const Array& out) = 0;
  /// The index (int32 or int64) as int64. One that is outside [0, size) is an error of `op` that
  /// names it and its position: on the host the first of them, at once; on a device that works
  /// behind the host's back any one, thrown where the host next waits for the device or indexes
  /// there, and it counts as 0 meanwhile.
  virtual Array checked_index(const char* op, const Array& index, int64_t size) = 0;
  /// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0; index is int64 with out's shape.
  virtual void gather(const Array& x, int dim, const Array& index, const Array& out) = 0;
  /// The reverse of gather into `out`, in index order: later elements win, or all are added (or
  /// multiplied, or the largest or smallest taken, NaN before all) to what is there.
  virtual void scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
                       const Array& out) = 0;
  /// out[.., i, ..] = x[.., index[i], ..] along `dim`.
  virtual void index_select(const Array& x, int dim, const Array& index, const Array& out) = 0;
  /// out[.., index[i], ..] += alpha * src[.., i, ..] in index order.
  virtual void index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                         const Array& out) = 0;
  /// out[.., i, ..] = the sum of row i's weights times x[.., its places, ..] along `dim`, in order;
  /// x and out contiguous, float32 or float64.
  virtual void weigh(const SparseRows& rows, const Array& x, int dim, const Array& out) = 0;
  /// Stable sort along `dim`; NaN is the largest. indices (int64) are positions in x.
  virtual void sort(const Array& x, int dim, bool descending, const Array& values,
                    const Array& indices) = 0;
  /// Positions of the non-zero elements as rows of an int64 array [count, ndim], row-major order.
  virtual Array nonzero(const Array& x) = 0;
  /// Columns of windows: x [N, C, H, W] to out [N, C * kh * kw, oh * ow]; outside counts as 0.
  /// There are as many places as fit into the padded input without the window's surplus.
  virtual void im2col(const Array& x, const Window& window, const Array& out) = 0;
  /// The reverse: sums columns back into out [N, C, H, W].
  virtual void col2im(const Array& columns, const Window& window, const Array& out) = 0;
  /// Pools x [N, C, H, W] to out [N, C, oh, ow]; `indices` (max only) are int64 positions in H * W.
  virtual void pool(PoolOp op, const Array& x, const Window& window, const Array& out,
                    const Array* indices) = 0;
  /// Gradient of max pooling with respect to x: zeros and, at the positions that pool found with
  /// this window, the sums of g in order. g and indices [N, C, oh, ow], out [N, C, H, W], all
  /// contiguous.
  virtual void max_pool_backward(const Array& g, const Window& window, const Array& indices,
                                 const Array& out) = 0;
  /// Gradient of average pooling with respect to x, added up into out [N, C, H, W].
  virtual void average_pool_backward(const Array& g, const Window& window, const Array& out) = 0;
  /// Fills out with numbers that depend only on the fill and the element's row-major position,
  /// which starts at `first`.
  virtual void random(const RandomFill& fill, int64_t first, const Array& out) = 0;
  /// \name Fused families: operands are contiguous and of one dtype, float32 or float64, on cuda
  /// also a half's, unless said otherwise.
  /// \{
  /// z [M, N] += bias (may be null), which is [N], or [C, 1]: one number a row, again every C rows;
  /// out = activation of z, and may be z itself where z is not wanted any more.
  virtual void bias_activation(Activation activation, const Array* bias, const Array& z,
                               const Array& out) = 0;
  /// x [M, N] to out; mean and scale (1 / sqrt(variance + eps)) are [M], float32 for halves.
  virtual void normalize_rows(const RowNorm& norm, const Array& x, const Array& out,
                              const Array& mean, const Array& scale) = 0;
  /// The gradient of x from g, and those of weight and bias, which may be null.
  virtual void normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                                       const Array& mean, const Array& scale, const Array& g_x,
                                       const Array* g_weight, const Array* g_bias) = 0;
  /// x [N, C, L] to out = (x - mean) / sqrt(variance + eps) weight + bias; mean and the biased
  /// variance are [C], of x's dtype, and set unless they are fixed. No halves.
  virtual void normalize_channels(const ChannelNorm& norm, const Array& x, const Array& out,
                                  const Array& mean, const Array& variance) = 0;
  /// The gradients of x, weight and bias from g, each of which may be null.
  virtual void normalize_channels_backward(const ChannelNorm& norm, const Array& g, const Array& x,
                                           const Array& mean, const Array& variance,
                                           const Array* g_x, const Array* g_weight,
                                           const Array* g_bias) = 0;
  /// out [B, H, T, E] = softmax(scores of q k^T) v: q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]
  /// of any strides, H / G neighbouring heads share one of k and v; out has unit last stride.
  /// log_sum [B, H, T]: logs of sums of exponentials; beside halves (cuda only) float32, as bias.
  virtual void attention(const AttentionScores& scores, const Array& q, const Array& k,
                         const Array& v, const Array& out, const Array& log_sum) = 0;
  /// Gradients into g_q, g_k, g_v, which have unit last strides; g has any.
  virtual void attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                                  const Array& k, const Array& v, const Array& out,
                                  const Array& log_sum, const Array& g_q, const Array& g_k,
                                  const Array& g_v) = 0;
  /// Rows x [N, C] with int64 classes [N]: out = x[class] - log_sum, log_sum = log(sum(exp(x))),
  /// both [N], float32 for halves.
  virtual void log_likelihood(const Array& x, const Array& classes, const Array& out,
                              const Array& log_sum) = 0;
  /// g_x = g (one at class - exp(x - log_sum)); g [N] is of log_sum's dtype, g_x may be x.
  virtual void log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                                       const Array& log_sum, const Array& g_x) = 0;
  virtual void recurrent_cell(CellKind kind, const CellStep& step) = 0;
  virtual void recurrent_cell_backward(CellKind kind, const CellStepBack& step) = 0;
  /// out = x * scale where the fill (bernoulli) draws true, else 0; any floating dtype and layout.
  virtual void random_mask(const RandomFill& fill, double scale, const Array& x,
                           const Array& out) = 0;
  /// \}
  /// One optimizer step over the elements of all items, whose parameters do not overlap: params and
  /// states are updated in place from gradients. param and grad are of `dtype`, states of that or,
  /// for halves, float32. An item's `low` is set to its parameter, rounded.
  virtual void update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
                      std::span<const double> coefficients) = 0;
  /// As core/functions/codec.h says: x [n] contiguous, float32 or a half, in rows of `row` elements
  /// to bytes [rows, encoded_bytes(codec, row)], contiguous and aligned to 4 bytes; error (may be
  /// null) is contiguous float32 [n].
  virtual void encode(Codec codec, const Array& x, int64_t row, const Array& bytes,
                      const Array* error) = 0;
  virtual void decode(Codec codec, const Array& bytes, int64_t row, DecodeMode mode,
                      const Array& out) = 0;
};

/// The backend of a device; throws where it is not available.
Backend& backend(Device device);

/// \name The backends of core.
/// \{
Backend& cpu_backend();
Backend& meta_backend();
/// \}

}  // namespace hero::core
