#pragma once
// Members of Tensor that are functions of math_ops.h, shape_ops.h and their like. Tensor derives
// from the class declared here.
#include <concepts>
#include <optional>
#include <vector>

#include <hero/autograd/in_place_members.h>

namespace hero {

class Index;
enum class Rounding;
struct Frexp;
struct LikeOptions;
struct MinMax;
struct QR;
struct QuantileOptions;
struct SignLogDet;
struct UniqueOptions;
struct Unique;
struct ValuesIndices;

/// The base of Tensor, with more of its members.
class TensorMembers : public InPlaceMembers {
 public:
  /// \name Elementwise: functions of <hero/autograd/ops/elementwise/elementwise.h> as members
  /// \{
  Tensor asin() const;
  Tensor acos() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor log10() const;
  Tensor erfc() const;
  Tensor erfinv() const;
  Tensor lgamma() const;
  Tensor digamma() const;
  Tensor polygamma(int64_t n) const;
  Tensor mvlgamma(int64_t p) const;
  Tensor igamma(const Tensor& x) const;
  Tensor igammac(const Tensor& x) const;
  Tensor i0() const;
  Tensor logit(std::optional<double> eps = {}) const;
  Tensor sinc() const;
  Tensor xlogy(const Tensor& other) const;
  Tensor xlogy(Scalar other) const;
  Tensor hypot(const Tensor& other) const;
  Tensor copysign(const Tensor& other) const;
  Tensor copysign(Scalar other) const;
  Tensor deg2rad() const;
  Tensor rad2deg() const;
  Tensor float_power(const Tensor& exponent) const;
  Tensor float_power(Scalar exponent) const;
  Tensor nan_to_num() const;
  Tensor trunc() const;
  Tensor fix() const;
  Tensor frac() const;
  Tensor round(int64_t decimals) const;
  Tensor floor_divide(const Tensor& other) const;
  Tensor floor_divide(Scalar other) const;
  Tensor div(const Tensor& other, Rounding rounding) const;
  Tensor div(Scalar other, Rounding rounding) const;
  Tensor fmod(const Tensor& other) const;
  Tensor fmod(Scalar other) const;
  Tensor gcd(const Tensor& other) const;
  Tensor lcm(const Tensor& other) const;
  Tensor ldexp(const Tensor& exponent) const;
  Tensor logaddexp2(const Tensor& other) const;
  Frexp frexp() const;
  Tensor nextafter(const Tensor& towards) const;
  Tensor bitwise_and(const Tensor& other) const;
  Tensor bitwise_and(Scalar other) const;
  Tensor bitwise_or(const Tensor& other) const;
  Tensor bitwise_or(Scalar other) const;
  Tensor bitwise_xor(const Tensor& other) const;
  Tensor bitwise_xor(Scalar other) const;
  Tensor bitwise_not() const;
  Tensor bitwise_left_shift(const Tensor& places) const;
  Tensor bitwise_left_shift(Scalar places) const;
  Tensor bitwise_right_shift(const Tensor& places) const;
  Tensor bitwise_right_shift(Scalar places) const;
  Tensor clamp(const Tensor& low, const Tensor& high) const;
  Tensor clamp_min(const Tensor& low) const;
  Tensor clamp_min(Scalar low) const;
  Tensor clamp_max(const Tensor& high) const;
  Tensor clamp_max(Scalar high) const;
  Tensor fmax(const Tensor& other) const;
  Tensor fmin(const Tensor& other) const;
  Tensor max(const Tensor& other) const;
  Tensor min(const Tensor& other) const;
  Tensor heaviside(const Tensor& values) const;
  Tensor signbit() const;
  Tensor isposinf() const;
  Tensor isneginf() const;
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const;
  /// hero::where(condition, x, other)
  Tensor where(const Tensor& condition, const Tensor& other) const;
  /// \}

  /// \name New tensors in this one's dtype and on its device, unless others are given
  /// \{
  /// A tensor of this shape whose values are not set.
  Tensor new_empty(const Shape& shape) const;
  /// The same in another dtype, on another device, or recorded.
  Tensor new_empty(const Shape& shape, const LikeOptions& options) const;
  /// A tensor of zeros.
  Tensor new_zeros(const Shape& shape) const;
  /// The same in another dtype, on another device, or recorded.
  Tensor new_zeros(const Shape& shape, const LikeOptions& options) const;
  /// A tensor of ones.
  Tensor new_ones(const Shape& shape) const;
  /// The same in another dtype, on another device, or recorded.
  Tensor new_ones(const Shape& shape, const LikeOptions& options) const;
  /// A tensor whose elements all have this value.
  Tensor new_full(const Shape& shape, Scalar value) const;
  /// The same in another dtype, on another device, or recorded.
  Tensor new_full(const Shape& shape, Scalar value, const LikeOptions& options) const;
  /// The values in the other tensor's dtype.
  Tensor type_as(const Tensor& other) const;
  /// Bytes of one element.
  int64_t element_size() const;
  /// True of float64, float32, float16 and bfloat16.
  bool is_floating_point() const;
  /// \}

  /// \name Shape: functions of <hero/autograd/ops/shape/shape.h> as members
  /// \{
  /// The matrices in the last two dimensions transposed; an Error if there are fewer.
  Tensor mT() const;  // NOLINT(readability-identifier-naming): PyTorch's name
  Tensor movedim(const Dims& source, const Dims& destination) const;
  Tensor moveaxis(const Dims& source, const Dims& destination) const;
  Tensor swapaxes(int64_t axis0, int64_t axis1) const;
  Tensor swapdims(int64_t dim0, int64_t dim1) const;
  Tensor squeeze(const std::vector<int64_t>& dims) const;
  Tensor unflatten(int64_t dim, const Shape& sizes) const;
  Tensor ravel() const;
  Tensor expand_as(const Tensor& other) const;
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor broadcast_to(const Shape& shape) const;
  /// x summed over the dimensions in which `shape` broadcasts to its shape.
  Tensor sum_to_size(const Shape& shape) const;
  Tensor tile(const Dims& repeats) const;
  Tensor fliplr() const;
  Tensor flipud() const;
  Tensor rot90(int64_t k = 1, const Dims& dims = {0, 1}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim = {}) const;
  Tensor repeat_interleave(int64_t repeats) const;
  Tensor diag(int64_t offset = 0) const;
  Tensor diag_embed(int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1) const;
  Tensor diagflat(int64_t offset = 0) const;
  Tensor trace() const;
  std::vector<Tensor> tensor_split(int64_t sections, int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const std::vector<int64_t>& indices, int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(const Tensor& indices_or_sections, int64_t dim = 0) const;
  std::vector<Tensor> hsplit(int64_t sections) const;
  std::vector<Tensor> vsplit(int64_t sections) const;
  std::vector<Tensor> dsplit(int64_t sections) const;
  Tensor multinomial(int64_t num_samples, bool replacement = false) const;
  Tensor bernoulli() const;
  /// \}

  /// \name Order, reductions and running functions: those of <hero/autograd/ops/reduce/reduce.h>
  /// \{
  Tensor sum(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor mean(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor prod(const Dims& dims, bool keepdim, DType dtype) const;
  Tensor cumsum(int64_t dim, DType dtype) const;
  Tensor cumprod(int64_t dim, DType dtype) const;
  Tensor softmax(int64_t dim, DType dtype) const;
  Tensor log_softmax(int64_t dim, DType dtype) const;
  Tensor var(std::initializer_list<int64_t> dims, bool keepdim = false) const;
  Tensor std(std::initializer_list<int64_t> dims, bool keepdim = false) const;
  Tensor nansum(const Dims& dims = {}, bool keepdim = false) const;
  Tensor nanmean(const Dims& dims = {}, bool keepdim = false) const;
  Tensor count_nonzero(const Dims& dims = {}) const;
  MinMax aminmax(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  /// norm(x - other, p). It is a member only, since its name is that of a namespace.
  Tensor dist(const Tensor& other, double p = 2.0) const;
  Tensor median() const;
  ValuesIndices median(int64_t dim, bool keepdim = false) const;
  Tensor nanmedian() const;
  ValuesIndices nanmedian(int64_t dim, bool keepdim = false) const;
  ValuesIndices kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false) const;
  ValuesIndices mode(int64_t dim = -1, bool keepdim = false) const;
  Tensor quantile(double q, const QuantileOptions& options) const;
  Tensor nanquantile(double q, const QuantileOptions& options) const;
  Tensor msort() const;
  ValuesIndices cummax(int64_t dim) const;
  ValuesIndices cummin(int64_t dim) const;
  Tensor logcumsumexp(int64_t dim) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1) const;
  /// \}

  /// \name Indexing and products: functions of <hero/autograd/ops/index/index.h> and product_ops.h
  /// \{
  /// x({Slice(0, 2), None, Ellipsis, mask}): see <hero/autograd/index.h>.
  Tensor operator()(std::initializer_list<Index> indices) const;
  /// A copy of x in which what x(indices) reads is replaced by values, which broadcast, or
  /// increased by them if accumulate is true; of one place twice the last value counts. \snippet
  /// test_examples_tensors.cpp index_put
  Tensor index_put(std::initializer_list<Index> indices, const Tensor& values,
                   bool accumulate = false) const;
  Tensor index_put(std::initializer_list<Index> indices, Scalar value,
                   bool accumulate = false) const;
  Tensor take(const Tensor& index) const;
  Tensor put(const Tensor& index, const Tensor& src, bool accumulate = false) const;
  Tensor take_along_dim(const Tensor& index, std::optional<int64_t> dim = {}) const;
  Tensor index_fill(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor index_fill(int64_t dim, const Tensor& index, const Tensor& value) const;
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value, ScatterReduce reduce) const;
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduce reduce,
                        bool include_self = true) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& src) const;
  Tensor argwhere() const;
  Unique unique(const UniqueOptions& options) const;
  Unique unique_consecutive(const UniqueOptions& options) const;
  Tensor bincount(const Tensor& weights, int64_t minlength = 0) const;
  Tensor bincount() const;
  Tensor histc(int64_t bins = 100, double low = 0.0, double high = 0.0) const;
  Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index) const;
  Tensor slice_scatter(const Tensor& src, int64_t dim = 0, int64_t start = 0, int64_t stop = kEnd,
                       int64_t step = 1) const;
  Tensor diagonal_scatter(const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                          int64_t dim2 = 1) const;
  Tensor index_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduce reduce,
                      bool include_self = true) const;
  Tensor addmm(const Tensor& a, const Tensor& b) const;
  Tensor addmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor addmv(const Tensor& a, const Tensor& v) const;
  Tensor addmv(const Tensor& a, const Tensor& v, const AddProduct& options) const;
  Tensor addr(const Tensor& u, const Tensor& v) const;
  Tensor addr(const Tensor& u, const Tensor& v, const AddProduct& options) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor addbmm(const Tensor& a, const Tensor& b) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  Tensor mv(const Tensor& v) const;
  Tensor inner(const Tensor& other) const;
  Tensor vdot(const Tensor& other) const;
  Tensor kron(const Tensor& other) const;
  Tensor cross(const Tensor& other, int64_t dim = -1) const;
  Tensor matrix_power(int64_t n) const;
  Tensor matrix_exp() const;
  Tensor renorm(double p, int64_t dim, double maxnorm) const;
  Tensor corrcoef() const;
  Tensor det() const;
  Tensor logdet() const;
  SignLogDet slogdet() const;
  /// hero::inv(x)
  Tensor inverse() const;
  /// hero::pinv(x)
  Tensor pinverse() const;
  Tensor cholesky() const;
  QR qr() const;
  /// \}
};

}  // namespace hero
