#pragma once
// Every differentiable operation. Names, arguments and behaviour are PyTorch's; elementwise
// operations broadcast by NumPy's rule and promote dtypes (core/promotion.h); negative dims count
// from the end. What differs stands in docs/differences.md.
// Gradients at kinks: relu, abs, sign, norm: 0 at 0; maximum/minimum of equal values: half each;
// amax/amin: shared evenly.
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
/// Half to even.
Tensor round(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1.0);
enum class Gelu { erf, tanh };
/// x * Phi(x), exact or by the tanh approximation. Hendrycks and Gimpel, arXiv 1606.08415.
Tensor gelu(const Tensor& x, Gelu approximate = Gelu::erf);
/// log(1 + exp(beta x)) / beta, linear where beta x > threshold.
Tensor softplus(const Tensor& x, double beta = 1.0, double threshold = 20.0);
/// Either bound may be absent; a bound of NaN gives NaN. Bounds outside an integer dtype's range
/// bound nothing, or are an Error where nothing could lie within them. The gradient is 1 on the
/// bounds.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high);
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
/// True division: integers divide to float32.
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
/// Integers stay integers; a number as exponent must then not be negative, and a negative element
/// of an integer exponent gives 0, save for bases 1 and -1.
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(Scalar base, const Tensor& exponent);
/// Remainder with the divisor's sign, as Python's %, exact however large the quotient; of integers
/// by 0 it is 0. No gradient through the quotient.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& ordinate, const Tensor& abscissa);
/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// a + weight * (b - a)
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// x + value * a * b; of integers an integer, for which value loses its fraction.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * a / b, rounded once where the result is a half.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// a where condition (bool) is true, else b.
/// \snippet test_examples_tensors.cpp where
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// value where mask (bool) is true, else x; of x's dtype, in which the value must fit.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// The same with a tensor without dimensions, which gets a gradient.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
/// \}

/// \name Comparison and logic: bool results without gradient
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
/// |a - b| <= atol + rtol * |b|, elementwise.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// Same shape and values.
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
/// Of integers and masks (bool), bit by bit; with numbers, and shifts: math_ops.h.
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

/// \name Reductions: over `dims`, all of them when empty
/// \{
/// \snippet test_examples_tensors.cpp sum
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// any and all are bool, of uint8 uint8, as in PyTorch.
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow.
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false);
struct VarOptions {
  Dims dims = {};
  bool keepdim = false;
  bool unbiased = true;                   ///< divide by n - 1
  std::optional<double> correction = {};  ///< divide by n - correction, whatever unbiased says
};
Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor std(const Tensor& x, const VarOptions& options = {});
struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const VarOptions& options = {});
/// (sum |x|^p)^(1/p); p may be infinity (largest magnitude) or 0 (count of non-zeros).
Tensor norm(const Tensor& x, double p = 2.0, const Dims& dims = {}, bool keepdim = false);
struct ValuesIndices {
  Tensor values, indices;  ///< indices: int64, without gradient
};
/// Largest element along dim and the position of its first occurrence.
/// \snippet test_examples_tensors.cpp max
ValuesIndices max(const Tensor& x, int64_t dim, bool keepdim = false);
ValuesIndices min(const Tensor& x, int64_t dim, bool keepdim = false);
/// Largest of all elements; ties share the gradient evenly.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor cumprod(const Tensor& x, int64_t dim);
/// Stable; NaN counts as the largest.
ValuesIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// \snippet test_examples_tensors.cpp topk
ValuesIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);
/// Sums x over the dimensions in which `shape` broadcasts to x's shape: the reverse of expand.
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
/// `length` elements from `start` on, which counts from the end where it is negative.
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
/// A matrix with `x` on its diagonal for 1-D x, the diagonal for 2-D x.
Tensor diag(const Tensor& x, int64_t offset = 0);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
/// Strides and offset count elements from x's first; x must be contiguous. Overlaps add gradients.
Tensor as_strided(const Tensor& x, const Shape& shape, const Dims& strides, int64_t offset = 0);
Tensor flip(const Tensor& x, const Dims& dims);
/// Elements move by `shifts` along `dims`, those that leave come back at the other end.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);
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
enum class PadMode { constant, reflect, replicate, circular };
/// `padding` holds pairs (before, after) from the last dimension backwards; negative widths cut.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode = PadMode::constant,
           double value = 0.0);
Tensor contiguous(const Tensor& x);
Tensor clone(const Tensor& x);
/// Conversion; the gradient comes back in x's dtype.
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
/// The elements (or sub-arrays) at (indices[0], indices[1], ...); the index tensors broadcast
/// together and index the first dimensions. Negative indices count from the end. A mask (bool)
/// indexes as many dimensions as it has, by the positions where it is true.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
/// x with the elements at (indices[0], indices[1], ...) replaced by, or increased by, `values`;
/// indices as for index().
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);
/// The elements where mask (bool) is true, as one dimension.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// int64 [count, ndim] positions of the non-zero elements.
Tensor nonzero(const Tensor& x);
/// Rows of weight [V, D] for each index; the gradient of row padding_idx is zero.
/// \snippet test_examples_tensors.cpp embedding
Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<int64_t> padding_idx = {});
/// \}

/// \name Products
/// \{
/// 1-D and 2-D as usual; more dimensions are batches, which broadcast.
/// \snippet test_examples_tensors.cpp matmul
Tensor matmul(const Tensor& a, const Tensor& b);
/// [M, K] x [K, N]
Tensor mm(const Tensor& a, const Tensor& b);
/// [B, M, K] x [B, K, N]
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
/// x W^T + b: x [.., in], weight [out, in], bias [out] (may be undefined); or weight [in] with a
/// bias [], whose result has no dimension of outputs.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// Einstein summation, with "..." and implicit output as NumPy's.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
/// \}

}  // namespace hero

#include <hero/autograd/overloads.h>
