#pragma once
// Members of Tensor that change it in place, beyond arithmetic.
#include <initializer_list>
#include <optional>
#include <vector>

#include <hero/core/array.h>

namespace hero {

class Index;
class Tensor;
enum class Rounding;
enum class ScatterReduce;
struct AddProduct;

/// The base of TensorMembers, with what changes a tensor in place.
class InPlaceMembers {
 public:
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
  const Tensor& round_(int64_t decimals) const;
  const Tensor& trunc_() const;
  const Tensor& frac_() const;
  const Tensor& erf_() const;
  const Tensor& erfc_() const;
  const Tensor& erfinv_() const;
  const Tensor& lgamma_() const;
  const Tensor& digamma_() const;
  const Tensor& polygamma_(int64_t n) const;
  const Tensor& mvlgamma_(int64_t p) const;
  const Tensor& igamma_(const Tensor& x) const;
  const Tensor& igammac_(const Tensor& x) const;
  const Tensor& i0_() const;
  const Tensor& deg2rad_() const;
  const Tensor& rad2deg_() const;
  const Tensor& nan_to_num_() const;
  const Tensor& sign_() const;
  const Tensor& atan2_(const Tensor& abscissa) const;
  const Tensor& xlogy_(const Tensor& other) const;
  const Tensor& hypot_(const Tensor& other) const;
  const Tensor& copysign_(const Tensor& other) const;
  const Tensor& copysign_(Scalar other) const;
  const Tensor& pow_(const Tensor& exponent) const;
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& remainder_(const Tensor& other) const;
  const Tensor& remainder_(Scalar other) const;
  const Tensor& fmod_(const Tensor& other) const;
  const Tensor& fmod_(Scalar other) const;
  const Tensor& gcd_(const Tensor& other) const;
  const Tensor& lcm_(const Tensor& other) const;
  const Tensor& ldexp_(const Tensor& exponent) const;
  const Tensor& nextafter_(const Tensor& towards) const;
  const Tensor& heaviside_(const Tensor& values) const;
  const Tensor& div_(const Tensor& other, Rounding rounding) const;
  const Tensor& div_(Scalar other, Rounding rounding) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha) const;
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
  const Tensor& scatter_(int64_t dim, const Tensor& index, Scalar value,
                         ScatterReduce reduce) const;
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
  const Tensor& renorm_(double p, int64_t dim, double maxnorm) const;
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
  const Tensor& log_normal_(double mean = 1.0, double std = 2.0) const;
  const Tensor& cauchy_(double median = 0.0, double scale = 1.0) const;
  /// The number of the first success, from 1 on, of trials that succeed with probability p.
  const Tensor& geometric_(double p) const;
  /// Random integers in [low, high), for any dtype.
  const Tensor& random_(int64_t low, int64_t high) const;
  /// \}

  /// \name Shape in place
  /// The tensor, and all handles of it, become the view of the same values that the function of
  /// this name gives; views and bases keep their shapes. No value is written, so what was saved for
  /// backward stays valid. An Error on a leaf that requires grad.
  /// \{
  const Tensor& squeeze_() const;
  const Tensor& squeeze_(int64_t dim) const;
  const Tensor& squeeze_(const std::vector<int64_t>& dims) const;
  const Tensor& unsqueeze_(int64_t dim) const;
  const Tensor& t_() const;
  const Tensor& transpose_(int64_t dim0, int64_t dim1) const;
  const Tensor& swapaxes_(int64_t axis0, int64_t axis1) const;
  const Tensor& swapdims_(int64_t dim0, int64_t dim1) const;
  /// \}

 protected:
  const Tensor& self() const;
};

}  // namespace hero
