#pragma once
// The differentiable operations that are used most. Names, arguments and behaviour are PyTorch's;
// elementwise operations broadcast by NumPy's rules and promote dtypes (core/promotion.h); negative
// dimensions count from the end. docs/differences.md lists the differences. Gradients at kinks:
// those of relu, abs, sign and norm are 0 at 0; equal values of maximum and minimum get half each;
// equal values of amax and amin share the gradient evenly.
#include <utility>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name Elementwise, one input
/// \{
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor mish(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// Rounds to the nearest integer, half to even.
Tensor round(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1.0);
/// The exact GELU, or its approximation by tanh.
enum class Gelu { erf, tanh };
/// x Phi(x), with the normal distribution function Phi, exact or approximated by tanh. Hendrycks
/// and Gimpel, arXiv 1606.08415.
Tensor gelu(const Tensor& x, Gelu approximate = Gelu::erf);
/// log(1 + exp(beta x)) / beta; x itself if beta x > threshold.
Tensor softplus(const Tensor& x, double beta = 1.0, double threshold = 20.0);
/// Limits x to [low, high]; either bound may be absent, and a bound of NaN gives NaN. For an
/// integer dtype, a bound outside its range has no effect, or is an Error if no number could lie
/// within the bounds. The gradient is 0 on the bounds.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
/// \}

/// \name Elementwise, two inputs
/// \{
/// \snippet test_examples_tensors.cpp broadcast
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
/// The true quotient; for integers it is float32.
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
/// base to the power of exponent. Integers stay integers: an exponent that is a number must then
/// not be negative, and a negative element of an integer exponent gives 0, except for the bases 1
/// and -1.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(Scalar base, const Tensor& exponent);
/// The remainder with the sign of the divisor, as Python's %, which is exact however large the
/// quotient is; for an integer and 0 it is 0. The quotient has no gradient.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& ordinate, const Tensor& abscissa);
/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// a + weight * (b - a), which is b itself for the weight 1. All that are tensors broadcast, and
/// the result has their promoted dtype, float32 if they are integers; half precision is rounded
/// once.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// x + value * a * b. For integers it is an integer, and the fraction of value is cut off.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * a / b; half precision is rounded only once.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// a where condition (bool) is true, and b elsewhere.
/// \snippet test_examples_tensors.cpp where
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// value where mask (bool) is true, and x elsewhere, in the dtype of x, which must be able to
/// represent the value.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// Does the same with a value that is a tensor without dimensions, which gets a gradient.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
/// \}

/// \name Comparison and logic: results are bool, without gradient
/// \{
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
/// Whether |a - b| <= atol + rtol * |b|, elementwise.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// True if shapes and values are the same.
bool equal(const Tensor& a, const Tensor& b);
/// \}

Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, Scalar b);
Tensor operator+(Scalar a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, Scalar b);
Tensor operator-(Scalar a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, Scalar b);
Tensor operator*(Scalar a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, Scalar b);
Tensor operator/(Scalar a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, Scalar b);
const Tensor& operator-=(const Tensor& a, const Tensor& b);
const Tensor& operator-=(const Tensor& a, Scalar b);
const Tensor& operator*=(const Tensor& a, const Tensor& b);
const Tensor& operator*=(const Tensor& a, Scalar b);
const Tensor& operator/=(const Tensor& a, const Tensor& b);
const Tensor& operator/=(const Tensor& a, Scalar b);
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, Scalar b);
/// Bitwise operations on integers and masks (bool). Those with numbers, and shifts, are in
/// math_ops.h.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, Scalar b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, Scalar b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, Scalar b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, Scalar b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, Scalar b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, Scalar b);

/// \name Reductions over `dims`, or over all dimensions when empty
/// \{
/// \snippet test_examples_tensors.cpp sum
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Whether any element is not zero. The result is bool, or uint8 for uint8, as in PyTorch.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow.
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false);
/// Options of var(), std() and their like.
struct VarOptions {
  Dims dims = {};                         ///< the dimensions that are reduced; all when empty
  bool keepdim = false;                   ///< true: reduced dimensions stay, with size 1
  bool unbiased = true;                   ///< true: divide by n - 1; false: by n
  std::optional<double> correction = {};  ///< divide by n - correction, whatever unbiased says
};
Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor std(const Tensor& x, const VarOptions& options = {});
/// What std_mean() returns.
struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const VarOptions& options = {});
/// The p-norm (sum |x|^p)^(1/p). p may be infinity, for the largest magnitude, or 0, for the number
/// of non-zero elements.
Tensor norm(const Tensor& x, double p = 2.0, const Dims& dims = {}, bool keepdim = false);
/// Elements and their positions.
struct ValuesIndices {
  Tensor values, indices;  ///< indices are int64, without gradient
};
/// The largest element along dim and the position of its first occurrence.
/// \snippet test_examples_tensors.cpp max
ValuesIndices max(const Tensor& x, int64_t dim, bool keepdim = false);
ValuesIndices min(const Tensor& x, int64_t dim, bool keepdim = false);
/// The largest of all elements; equal ones share the gradient evenly.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor cumprod(const Tensor& x, int64_t dim);
/// Sorts along dim. The sort is stable, and NaN counts as the largest number.
ValuesIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// \snippet test_examples_tensors.cpp topk
ValuesIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);
/// Sums x over the dimensions in which `shape` broadcasts to x's shape: the transpose of expand().
Tensor sum_to(const Tensor& x, const Shape& shape);
/// \}

/// \name Shape
/// \{
/// \snippet test_examples_tensors.cpp reshape
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const Dims& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
/// \snippet test_examples_tensors.cpp slice
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop = kEnd, int64_t step = 1);
/// `length` elements from `start` on; a negative start counts from the end.
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
/// For a vector, a matrix with x on its diagonal; for a matrix, its diagonal.
Tensor diag(const Tensor& x, int64_t offset = 0);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
/// A view of x's memory with this shape and these strides; strides and offset count elements, from
/// the first of x. x must be contiguous. Where elements overlap, gradients are added up.
Tensor as_strided(const Tensor& x, const Shape& shape, const Dims& strides, int64_t offset = 0);
Tensor flip(const Tensor& x, const Dims& dims);
/// Moves elements by `shifts` along `dims`, or in row-major order if there are none; those that
/// leave return at the other end.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});
Tensor repeat(const Tensor& x, const Dims& repeats);
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
/// \snippet test_examples_tensors.cpp cat
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
/// What pad() adds: a constant, x mirrored, its edge repeated, or its opposite end.
enum class PadMode { constant, reflect, replicate, circular };
/// Adds elements around x. `padding` has pairs (before, after), for the last dimension first;
/// negative widths cut elements off.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode = PadMode::constant,
           double value = 0.0);
Tensor contiguous(const Tensor& x);
Tensor clone(const Tensor& x);
/// Converts x to a dtype; the gradient returns in the dtype of x.
Tensor to(const Tensor& x, DType dtype);
Tensor to(const Tensor& x, Device device);
/// \}

/// \name Indexing: indices are int64 (int32 is converted)
/// \{
/// \snippet test_examples_tensors.cpp gather
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                 double alpha = 1.0);
/// The elements (or slices) of x at (indices[0], indices[1], ...). The index tensors broadcast
/// together and index the first dimensions; negative indices count from the end. A mask (bool)
/// indexes as many dimensions as it has, by the positions where it is true.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
/// A copy of x in which the elements at (indices[0], indices[1], ...) are replaced by `values`, or
/// increased by them if accumulate is true; indices are as in index().
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);
/// The elements where mask (bool) is true, as a vector.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// The positions of the non-zero elements, int64 [count, ndim].
Tensor nonzero(const Tensor& x);
/// The rows of weight [V, D] at each index; the gradient of row padding_idx is zero. With
/// scale_grad_by_freq the gradient of a row is divided by the number of times that it occurs.
/// \snippet test_examples_tensors.cpp embedding
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<int64_t> padding_idx = {},
                 bool scale_grad_by_freq = false);
/// \}

/// \name Products
/// \{
/// The product of matrices [.., M, K] and [.., K, N], or of vectors; leading dimensions are
/// batches, which broadcast.
/// \snippet test_examples_tensors.cpp matmul
Tensor matmul(const Tensor& a, const Tensor& b);
/// The product of matrices [M, K] and [K, N].
Tensor mm(const Tensor& a, const Tensor& b);
/// The products of batches of matrices [B, M, K] and [B, K, N].
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
/// x W^T + b, for x [.., in], weight [out, in] and bias [out], which may be undefined; or for
/// weight [in] and bias [], whose result has no dimension of outputs.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// Einstein summation, with "..." and implicit output as in NumPy.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
/// \}

}  // namespace hero

#include <hero/autograd/overloads.h>
