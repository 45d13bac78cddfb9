#pragma once
// What the calls of kernels (core/device/calls.h) hold beside plain arrays: which function of a
// family is asked for, the geometry of windows, and the options of norms and attention.
// An array that a struct holds by pointer is optional: if the pointer is null, or an Array is
// undefined, it is absent, and the kernel leaves out the step that would use it. "Halves" are
// float16 and bfloat16.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/array.h>

namespace hero::core {

/// An option that has no default: a struct that holds one does not compile where it is left out.
template <class T>
class Required {
 public:
  constexpr Required(T value) : value_(value) {}
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

/// One input of an elementwise kernel: an array, broadcast to the output's shape, or a number.
struct Operand {
  Operand(const Array& input) : array(&input) {}
  Operand(Scalar value) : scalar(value) {}
  const Array* array = nullptr;  ///< null where the operand is the number `scalar`
  Scalar scalar;
};

/// The position of an elementwise functor in kernels::MapList (core/kernels/elementwise.h).
struct MapOp {
  uint16_t index;
};

/// One step of call::FusedMap: a functor and where its arguments come from. Each `from` is the
/// index of an earlier step, whose result is taken, or, if negative, stands for the input ~from.
/// Entries beyond the functor's arity mean nothing. If `out` is not negative, the step's result is
/// result `out` of the fused map.
struct FusedMapStep {
  MapOp op;
  int16_t arity;
  std::array<int16_t, 4> from;
  int16_t out = -1;
};

/// Whether a step behind step i takes the result of step `result`.
bool is_taken_after(std::span<const FusedMapStep> steps, size_t i, int result);

/// The position of an optimizer's functor in kernels::UpdateList (core/kernels/optimizer_steps.h).
struct UpdateOp {
  uint16_t index;
};

/// What a reduction computes from the elements x that it reduces to one element of its result.
enum class ReduceKind : uint8_t {
  sum,            ///< the sum of x
  prod,           ///< the product of x
  max,            ///< the largest x; NaN if any x is NaN
  min,            ///< the smallest x; NaN if any x is NaN
  any,            ///< whether any x is not zero
  all,            ///< whether no x is zero
  sum_abs,        ///< the sum of |x|
  sum_square,     ///< the sum of x^2
  sum_deviation,  ///< the sum of (x - center)^2
  sum_exp,        ///< the sum of exp(x - center)
};

/// What a scan accumulates, and from which end of the dimension.
enum class ScanOp : uint8_t { sum, prod };
enum class Direction : uint8_t { forward, backward };
/// Which element call::ArgReduce looks for.
enum class ArgOp : uint8_t { max, min };
/// How call::Scatter combines a source's element with the destination's element at its index.
enum class ScatterMode : uint8_t { assign, add, multiply, maximum, minimum };
enum class PoolOp : uint8_t { max, average };
enum class SoftmaxKind : uint8_t { softmax, log_softmax };
/// Which number of an exact sum is asked for: the sum itself or its square root.
enum class SumResult : uint8_t { value, root };

/// How floating-point numbers become bytes. core/functions/codec.h describes the format of each.
enum class Codec : uint8_t {
  sign1,     ///< one bit for each element, and one scale for all
  int8,      ///< eight bits for each element, and a scale for every 256 elements
  int4,      ///< four bits for each element, and a scale for every 256 elements
  fp8_e4m3,  ///< eight bits with an exponent of four, and a scale for every 256 elements
  fp8_e5m2,  ///< eight bits with an exponent of five, and a scale for every 256 elements
};
/// How decoded rows are stored: one after the other, added to the elements that are there already,
/// or as their sum over all rows.
enum class DecodeMode : uint8_t { assign, add, sum };

/// A window that slides over the last two dimensions of [N, C, H, W]. Index 0 of each field is the
/// height and index 1 the width. Where there is one spatial dimension, H is 1. All numbers count
/// positions of the input.
struct Window {
  int64_t kernel[2] = {1, 1};    ///< how many taps the window has
  int64_t stride[2] = {1, 1};    ///< the distance between neighbouring positions of the window
  int64_t padding[2] = {0, 0};   ///< positions added at both ends of the input
  int64_t dilation[2] = {1, 1};  ///< the distance between neighbouring taps
  /// True: average pooling divides by the number of taps within the padded input; false: by the
  /// number of taps within the input itself.
  bool count_padding = true;
  /// For im2col and col2im only: the number of positions at the end of the input that no window
  /// covers. The output of a transposed convolution may be that much longer than its windows.
  int64_t surplus[2] = {0, 0};

  /// The number of input positions that a window spans along an axis, from its first tap to its
  /// last.
  int64_t reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  /// The number of window positions along an axis for an input of `size`.
  int64_t places(int axis, int64_t size) const {
    return (size - surplus[axis] + 2 * padding[axis] - reach(axis)) / stride[axis] + 1;
  }
};

/// A window that slides over the last three dimensions of [N, C, D, H, W]; in the depth there is
/// one tap where x is [N, C, H, W]. The fields are as in Window.
struct Window3 {
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
};
/// The three maps of a convolution: from x and w to y, from y and w to x, from x and y to w.
enum class ConvolutionMap : uint8_t { output, input, weight };

/// How grid sampling computes a value between pixels, and the pixels that it assumes outside of the
/// image.
struct GridSampling {
  /// The pixels outside of the image: zeros, the nearest pixel of the border, or the image
  /// reflected.
  enum class Outside : uint8_t { zeros, border, reflection };
  int taps = 2;  ///< pixels along each dimension: 1 the nearest, 2 linear, 4 cubic
  Outside outside = Outside::zeros;
  bool align_corners = false;  ///< -1 and 1 are the centres of corner pixels, else their edges
};

/// The function that a kernel applies to each sum of a product before it stores it.
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };

/// A sparse matrix by its rows. For starts[i] <= e < starts[i + 1], row i has the number weights[e]
/// in the column places[e].
struct SparseRows {
  Array starts;   ///< int64 [rows + 1], ascending from 0
  Array places;   ///< int64, one for each entry
  Array weights;  ///< one for each entry, of the dtype of the kernel's other operands
};

/// How the scores q k^T of attention are changed before their softmax is taken: each is multiplied
/// by `scale`, then `bias` is added. A score becomes -inf where `mask` is false, and also, if
/// is_causal, where the key comes after the query. B batch, H heads, T queries, S keys.
struct AttentionScores {
  double scale = 1.0;
  bool is_causal = false;
  const Array* mask = nullptr;  ///< bool [B, H, T, S] of any strides
  const Array* bias = nullptr;  ///< [B, H, T, S] of any strides, of log_sum's dtype
  int64_t first_query = 0;      ///< the position of query 0 among the keys, for is_causal; >= 0
};

/// Options of call::NormalizeRows and its backward. Each row of x [M, N] is brought to mean 0,
/// if `centered`, and to mean square 1, then multiplied by weight and shifted by bias.
struct RowNorm {
  const Array* weight = nullptr;  ///< [N]
  const Array* bias = nullptr;    ///< [N]
  double eps = 0.0;               ///< added to the variance, or to the mean square
  bool centered = true;           ///< layer_norm if true, rms_norm if false
  /// Forward only: [M, N], added to x first. It has x's dtype, or a half's if x is float32.
  const Array* residual = nullptr;
  const Array* sum = nullptr;    ///< forward, with residual: set to the sum that is normalised
  const Array* g_sum = nullptr;  ///< backward only: [M, N], added to the gradient of x
  /// Backward of float32 only: [M, N] of a half's dtype, set to the gradient of x, rounded.
  const Array* g_residual = nullptr;
  /// Group norm, computed in float32, on the CPU only: this many consecutive rows are the groups of
  /// one sample, in which each plane of `plane` elements has its own element of weight and bias,
  /// [C]. x and its norm or gradient may be of halves. 0: no group norm.
  int64_t groups = 0;
  int64_t plane = 0;  ///< divides N

  /// Calls visit() with all arrays.
  void arrays(auto&& visit) const { visit(weight, bias, residual, sum, g_sum, g_residual); }
};

/// Options of call::NormalizeChannels and its backward. Each channel of x [N, C, L] is brought
/// to mean 0 and variance 1 over N and L, then multiplied by weight and shifted by bias.
struct ChannelNorm {
  const Array* weight = nullptr;  ///< [C]
  const Array* bias = nullptr;    ///< [C]
  double eps = 0.0;               ///< added to the variance
  /// True: mean and variance are inputs, which backward treats as constants (batch norm in
  /// evaluation). False: they are computed from x.
  bool fixed = false;
};

/// A matrix [rows, columns] in the order in which a device's products read it; made by
/// call::PackMatrix, and valid only on the device that made it.
struct PackedMatrix {
  int64_t rows = 0, columns = 0;
  Array panels;  ///< of one dimension and the matrix's dtype
};

enum class CellKind : uint8_t { lstm, gru };

/// The largest number of states that a functor of kernels::UpdateList keeps.
inline constexpr int kMaxUpdateStates = 3;

/// One parameter of an optimizer step, with its gradient and as many states as the functor keeps.
/// Each pointer is to the first of n contiguous elements on the backend's device, with the dtypes
/// that call::Update names.
struct UpdateItem {
  int64_t n = 0;
  std::byte* param = nullptr;
  const std::byte* grad = nullptr;
  std::array<std::byte*, kMaxUpdateStates> states = {};
  /// For a functor that takes norms (LAMB's): two numbers on the device, the norms of the parameter
  /// and of its direction; else null.
  const double* norms = nullptr;
  /// n elements of `low_dtype`, a half, that are set to the float32 parameter, rounded; the
  /// gradient then has low_dtype, too. Null if no such copy is kept; a functor that takes norms
  /// keeps none.
  std::byte* low = nullptr;
  DType low_dtype = DType::float32;
};

/// The distribution and the source of the random numbers of call::Random. An element's number
/// depends only on seed, stream and the element's position.
struct RandomFill {
  enum class Kind : uint8_t {
    uniform,      ///< in [a, b)
    normal,       ///< with mean a and standard deviation b
    integer,      ///< in [low, high)
    bernoulli,    ///< true with probability a
    exponential,  ///< with rate a
  };
  Kind kind = Kind::uniform;
  uint64_t seed = 0;
  uint64_t stream = 0;
  double a = 0.0;
  double b = 1.0;
  int64_t low = 0, high = 0;
};

}  // namespace hero::core
