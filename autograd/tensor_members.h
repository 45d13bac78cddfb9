#pragma once
// Members of Tensor that are functions of math_ops.h, shape_ops.h and their like, and in-place
// operations beyond arithmetic. Tensor derives from the class declared here.
#include <concepts>
#include <optional>
#include <vector>

#include <hero/core/array.h>

namespace hero {

class Index;
class Tensor;
enum class Rounding;
enum class ScatterReduce;
struct AddProduct;
struct LikeOptions;
struct MinMax;
struct QuantileOptions;
struct UniqueOptions;
struct Unique;
struct ValuesIndices;

/// The number of a dimension, instead of a list of them.
template <class T>
concept DimNumber = std::integral<T> && !std::same_as<T, bool>;

/// Dimensions as a list or as one number: x.sum({0, 1}), x.sum(-1).
class DimList : public Dims {
 public:
  DimList() = default;
  DimList(std::initializer_list<int64_t> dims) : Dims(dims) {}
  DimList(const Dims& dims) : Dims(dims) {}
  DimList(const std::vector<int64_t>& dims) : Dims(dims) {}
  template <DimNumber I>
  DimList(I dim) : Dims{static_cast<int64_t>(dim)} {}
};

/// The base of Tensor, with more of its members.
class TensorMembers {
 public:
  /// \name Elementwise: functions of <hero/autograd/math_ops.h> as members
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
  Tensor heaviside(const Tensor& values) const;
  Tensor signbit() const;
  Tensor isposinf() const;
  Tensor isneginf() const;
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const;
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

  /// \name Shape: functions of <hero/autograd/shape_ops.h> as members
  /// \{
  /// The matrices in the last two dimensions transposed; an Error if there are fewer.
  Tensor mT() const;  // NOLINT(readability-identifier-naming): PyTorch's name
  Tensor movedim(const DimList& source, const DimList& destination) const;
  Tensor moveaxis(const DimList& source, const DimList& destination) const;
  Tensor swapaxes(int64_t axis0, int64_t axis1) const;
  Tensor swapdims(int64_t dim0, int64_t dim1) const;
  Tensor squeeze(const std::vector<int64_t>& dims) const;
  Tensor unflatten(int64_t dim, const Shape& sizes) const;
  Tensor ravel() const;
  Tensor expand_as(const Tensor& other) const;
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor broadcast_to(const Shape& shape) const;
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
  std::vector<Tensor> hsplit(int64_t sections) const;
  std::vector<Tensor> vsplit(int64_t sections) const;
  std::vector<Tensor> dsplit(int64_t sections) const;
  Tensor multinomial(int64_t num_samples, bool replacement = false) const;
  Tensor bernoulli() const;
  /// \}

  /// \name Order, reductions and running functions: those of <hero/autograd/reduce_ops.h>
  /// \{
  Tensor sum(const DimList& dims, bool keepdim, DType dtype) const;
  Tensor mean(const DimList& dims, bool keepdim, DType dtype) const;
  Tensor prod(const DimList& dims, bool keepdim, DType dtype) const;
  Tensor cumsum(int64_t dim, DType dtype) const;
  Tensor cumprod(int64_t dim, DType dtype) const;
  Tensor softmax(int64_t dim, DType dtype) const;
  Tensor log_softmax(int64_t dim, DType dtype) const;
  Tensor nansum(const DimList& dims = {}, bool keepdim = false) const;
  Tensor nanmean(const DimList& dims = {}, bool keepdim = false) const;
  Tensor count_nonzero(const DimList& dims = {}) const;
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

  /// \name Indexing and products: functions of <hero/autograd/index_ops.h> and product_ops.h
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
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduce reduce,
                        bool include_self = true) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& src) const;
  Tensor argwhere() const;
  Unique unique(const UniqueOptions& options) const;
  Unique unique_consecutive(const UniqueOptions& options) const;
  Tensor bincount(const Tensor& weights, int64_t minlength = 0) const;
  Tensor bincount() const;
  Tensor histc(int64_t bins = 100, double low = 0.0, double high = 0.0) const;
  Tensor mv(const Tensor& v) const;
  Tensor inner(const Tensor& other) const;
  Tensor vdot(const Tensor& other) const;
  Tensor kron(const Tensor& other) const;
  Tensor cross(const Tensor& other, int64_t dim = -1) const;
  Tensor matrix_power(int64_t n) const;
  Tensor matrix_exp() const;
  /// \}

  /// \name In place: recorded like their counterparts. An Error on a leaf that requires grad while
  /// recording.
  /// \{
  const Tensor& abs_() const;
  const Tensor& neg_() const;
  const Tensor& exp_() const;
  const Tensor& exp2_() const;
  const Tensor& expm1_() const;
  const Tensor& log_() const;
  const Tensor& log2_() const;
  const Tensor& log10_() const;
  const Tensor& log1p_() const;
  const Tensor& logit_(std::optional<double> eps = {}) const;
  const Tensor& sqrt_() const;
  const Tensor& rsqrt_() const;
  const Tensor& square_() const;
  const Tensor& reciprocal_() const;
  const Tensor& sin_() const;
  const Tensor& cos_() const;
  const Tensor& tan_() const;
  const Tensor& asin_() const;
  const Tensor& acos_() const;
  const Tensor& atan_() const;
  const Tensor& sinh_() const;
  const Tensor& cosh_() const;
  const Tensor& tanh_() const;
  const Tensor& asinh_() const;
  const Tensor& acosh_() const;
  const Tensor& atanh_() const;
  const Tensor& sinc_() const;
  const Tensor& sigmoid_() const;
  const Tensor& relu_() const;
  const Tensor& floor_() const;
  const Tensor& ceil_() const;
  const Tensor& round_() const;
  const Tensor& trunc_() const;
  const Tensor& frac_() const;
  const Tensor& erf_() const;
  const Tensor& erfc_() const;
  const Tensor& erfinv_() const;
  const Tensor& lgamma_() const;
  const Tensor& digamma_() const;
  const Tensor& deg2rad_() const;
  const Tensor& rad2deg_() const;
  const Tensor& nan_to_num_() const;
  const Tensor& sign_() const;
  const Tensor& atan2_(const Tensor& abscissa) const;
  const Tensor& xlogy_(const Tensor& other) const;
  const Tensor& hypot_(const Tensor& other) const;
  const Tensor& copysign_(const Tensor& other) const;
  const Tensor& pow_(const Tensor& exponent) const;
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& remainder_(const Tensor& other) const;
  const Tensor& remainder_(Scalar other) const;
  const Tensor& fmod_(const Tensor& other) const;
  const Tensor& fmod_(Scalar other) const;
  const Tensor& floor_divide_(const Tensor& other) const;
  const Tensor& floor_divide_(Scalar other) const;
  const Tensor& clamp_(const Tensor& low, const Tensor& high) const;
  const Tensor& clamp_min_(const Tensor& low) const;
  const Tensor& clamp_min_(Scalar low) const;
  const Tensor& clamp_max_(const Tensor& high) const;
  const Tensor& clamp_max_(Scalar high) const;
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& lerp_(const Tensor& end, const Tensor& weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& masked_fill_(const Tensor& mask, const Tensor& value) const;
  const Tensor& logical_and_(const Tensor& other) const;
  const Tensor& logical_or_(const Tensor& other) const;
  const Tensor& logical_xor_(const Tensor& other) const;
  const Tensor& logical_not_() const;
  const Tensor& bitwise_and_(const Tensor& other) const;
  const Tensor& bitwise_or_(const Tensor& other) const;
  const Tensor& bitwise_xor_(const Tensor& other) const;
  const Tensor& bitwise_not_() const;
  const Tensor& bitwise_left_shift_(const Tensor& places) const;
  const Tensor& bitwise_right_shift_(const Tensor& places) const;
  const Tensor& tril_(int64_t diagonal = 0) const;
  const Tensor& triu_(int64_t diagonal = 0) const;
  const Tensor& cumsum_(int64_t dim) const;
  const Tensor& cumprod_(int64_t dim) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_(int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src,
                                ScatterReduce reduce, bool include_self = true) const;
  const Tensor& masked_scatter_(const Tensor& mask, const Tensor& src) const;
  const Tensor& put_(const Tensor& index, const Tensor& src, bool accumulate = false) const;
  const Tensor& index_fill_(int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& index_fill_(int64_t dim, const Tensor& index, const Tensor& value) const;
  const Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                           double alpha = 1.0) const;
  const Tensor& index_put_(const std::vector<Tensor>& indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values,
                           bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, Scalar value,
                           bool accumulate = false) const;
  const Tensor& fill_(const Tensor& value) const;
  const Tensor& fill_diagonal_(Scalar value) const;
  const Tensor& addmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& addmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  const Tensor& addmv_(const Tensor& a, const Tensor& v) const;
  const Tensor& addmv_(const Tensor& a, const Tensor& v, const AddProduct& options) const;
  const Tensor& addr_(const Tensor& u, const Tensor& v) const;
  const Tensor& addr_(const Tensor& u, const Tensor& v, const AddProduct& options) const;
  const Tensor& baddbmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& baddbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  const Tensor& addbmm_(const Tensor& a, const Tensor& b) const;
  const Tensor& addbmm_(const Tensor& a, const Tensor& b, const AddProduct& options) const;
  /// \}

  /// \name In place, random: drawn from this thread's generator; replaced values have the gradient
  /// 0
  /// \{
  const Tensor& uniform_(double from = 0.0, double to = 1.0) const;
  const Tensor& normal_(double mean = 0.0, double std = 1.0) const;
  const Tensor& exponential_(double rate = 1.0) const;
  const Tensor& bernoulli_(double p = 0.5) const;
  /// Random integers in [low, high), for any dtype.
  const Tensor& random_(int64_t low, int64_t high) const;
  /// \}

 private:
  const Tensor& self() const;
};

}  // namespace hero
