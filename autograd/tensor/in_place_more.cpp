// Operations in place whose values are those of their counterparts: computed, then copied over.
#include <hero/autograd/ops/detail/in_place_by_copy.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/overlap.h>
#include <hero/core/promotion.h>

namespace hero {

using detail::become, detail::wants;

const Tensor& InPlaceMembers::abs_() const { return become("abs_", self(), hero::abs); }
const Tensor& InPlaceMembers::neg_() const { return become("neg_", self(), hero::neg); }
const Tensor& InPlaceMembers::exp_() const { return become("exp_", self(), hero::exp); }
const Tensor& InPlaceMembers::exp2_() const { return become("exp2_", self(), hero::exp2); }
const Tensor& InPlaceMembers::expm1_() const { return become("expm1_", self(), hero::expm1); }
const Tensor& InPlaceMembers::log_() const { return become("log_", self(), hero::log); }
const Tensor& InPlaceMembers::log2_() const { return become("log2_", self(), hero::log2); }
const Tensor& InPlaceMembers::log10_() const { return become("log10_", self(), hero::log10); }
const Tensor& InPlaceMembers::log1p_() const { return become("log1p_", self(), hero::log1p); }
const Tensor& InPlaceMembers::logit_(std::optional<double> eps) const {
  return become("logit_", self(), false, [&] { return hero::logit(self(), eps); });
}
const Tensor& InPlaceMembers::sqrt_() const { return become("sqrt_", self(), hero::sqrt); }
const Tensor& InPlaceMembers::rsqrt_() const { return become("rsqrt_", self(), hero::rsqrt); }
const Tensor& InPlaceMembers::square_() const { return become("square_", self(), hero::square); }
const Tensor& InPlaceMembers::reciprocal_() const {
  return become("reciprocal_", self(), hero::reciprocal);
}
const Tensor& InPlaceMembers::sin_() const { return become("sin_", self(), hero::sin); }
const Tensor& InPlaceMembers::cos_() const { return become("cos_", self(), hero::cos); }
const Tensor& InPlaceMembers::tan_() const { return become("tan_", self(), hero::tan); }
const Tensor& InPlaceMembers::asin_() const { return become("asin_", self(), hero::asin); }
const Tensor& InPlaceMembers::acos_() const { return become("acos_", self(), hero::acos); }
const Tensor& InPlaceMembers::atan_() const { return become("atan_", self(), hero::atan); }
const Tensor& InPlaceMembers::sinh_() const { return become("sinh_", self(), hero::sinh); }
const Tensor& InPlaceMembers::cosh_() const { return become("cosh_", self(), hero::cosh); }
const Tensor& InPlaceMembers::tanh_() const { return become("tanh_", self(), hero::tanh); }
const Tensor& InPlaceMembers::asinh_() const { return become("asinh_", self(), hero::asinh); }
const Tensor& InPlaceMembers::acosh_() const { return become("acosh_", self(), hero::acosh); }
const Tensor& InPlaceMembers::atanh_() const { return become("atanh_", self(), hero::atanh); }
const Tensor& InPlaceMembers::sinc_() const { return become("sinc_", self(), hero::sinc); }
const Tensor& InPlaceMembers::sigmoid_() const { return become("sigmoid_", self(), hero::sigmoid); }
const Tensor& InPlaceMembers::relu_() const { return become("relu_", self(), hero::relu); }
const Tensor& InPlaceMembers::floor_() const { return become("floor_", self(), hero::floor); }
const Tensor& InPlaceMembers::ceil_() const { return become("ceil_", self(), hero::ceil); }
const Tensor& InPlaceMembers::round_() const { return become("round_", self(), hero::round); }
const Tensor& InPlaceMembers::trunc_() const { return become("trunc_", self(), hero::trunc); }
const Tensor& InPlaceMembers::frac_() const { return become("frac_", self(), hero::frac); }
const Tensor& InPlaceMembers::erf_() const { return become("erf_", self(), hero::erf); }
const Tensor& InPlaceMembers::erfc_() const { return become("erfc_", self(), hero::erfc); }
const Tensor& InPlaceMembers::erfinv_() const { return become("erfinv_", self(), hero::erfinv); }
const Tensor& InPlaceMembers::lgamma_() const { return become("lgamma_", self(), hero::lgamma); }
const Tensor& InPlaceMembers::digamma_() const { return become("digamma_", self(), hero::digamma); }
const Tensor& InPlaceMembers::deg2rad_() const { return become("deg2rad_", self(), hero::deg2rad); }
const Tensor& InPlaceMembers::rad2deg_() const { return become("rad2deg_", self(), hero::rad2deg); }
const Tensor& InPlaceMembers::nan_to_num_() const {
  return become("nan_to_num_", self(), false, [&] { return hero::nan_to_num(self()); });
}
const Tensor& InPlaceMembers::sign_() const { return become("sign_", self(), hero::sign); }
const Tensor& InPlaceMembers::atan2_(const Tensor& other) const {
  return become("atan2_", self(), wants("atan2_", other),
                [&] { return hero::atan2(self(), other); });
}
const Tensor& InPlaceMembers::xlogy_(const Tensor& other) const {
  return become("xlogy_", self(), wants("xlogy_", other),
                [&] { return hero::xlogy(self(), other); });
}
const Tensor& InPlaceMembers::hypot_(const Tensor& other) const {
  return become("hypot_", self(), wants("hypot_", other),
                [&] { return hero::hypot(self(), other); });
}
const Tensor& InPlaceMembers::copysign_(const Tensor& other) const {
  return become("copysign_", self(), wants("copysign_", other),
                [&] { return hero::copysign(self(), other); });
}
const Tensor& InPlaceMembers::copysign_(Scalar other) const {
  return become("copysign_", self(), false, [&] { return hero::copysign(self(), other); });
}
const Tensor& InPlaceMembers::round_(int64_t decimals) const {
  return become("round_", self(), false, [&] { return hero::round(self(), decimals); });
}
const Tensor& InPlaceMembers::div_(const Tensor& other, Rounding rounding) const {
  return become("div_", self(), wants("div_", other),
                [&] { return hero::div(self(), other, rounding); });
}
const Tensor& InPlaceMembers::div_(Scalar other, Rounding rounding) const {
  return become("div_", self(), false, [&] { return hero::div(self(), other, rounding); });
}
const Tensor& InPlaceMembers::sub_(const Tensor& other, Scalar alpha) const {
  return become("sub_", self(), wants("sub_", other),
                [&] { return hero::sub(self(), other, alpha); });
}
const Tensor& InPlaceMembers::pow_(const Tensor& exponent) const {
  return become("pow_", self(), wants("pow_", exponent),
                [&] { return hero::pow(self(), exponent); });
}
const Tensor& InPlaceMembers::pow_(Scalar exponent) const {
  return become("pow_", self(), false, [&] { return hero::pow(self(), exponent); });
}
const Tensor& InPlaceMembers::remainder_(const Tensor& other) const {
  return become("remainder_", self(), wants("remainder_", other),
                [&] { return hero::remainder(self(), other); });
}
const Tensor& InPlaceMembers::remainder_(Scalar other) const {
  return become("remainder_", self(), false, [&] { return hero::remainder(self(), other); });
}
const Tensor& InPlaceMembers::fmod_(const Tensor& other) const {
  return become("fmod_", self(), wants("fmod_", other), [&] { return hero::fmod(self(), other); });
}
const Tensor& InPlaceMembers::fmod_(Scalar other) const {
  return become("fmod_", self(), false, [&] { return hero::fmod(self(), other); });
}
const Tensor& InPlaceMembers::floor_divide_(const Tensor& other) const {
  return become("floor_divide_", self(), wants("floor_divide_", other),
                [&] { return hero::floor_divide(self(), other); });
}
const Tensor& InPlaceMembers::floor_divide_(Scalar other) const {
  return become("floor_divide_", self(), false, [&] { return hero::floor_divide(self(), other); });
}
const Tensor& InPlaceMembers::clamp_(const Tensor& low, const Tensor& high) const {
  return become("clamp_", self(), wants("clamp_", low) || wants("clamp_", high),
                [&] { return hero::clamp(self(), low, high); });
}
const Tensor& InPlaceMembers::clamp_min_(const Tensor& low) const {
  return become("clamp_min_", self(), wants("clamp_min_", low),
                [&] { return hero::clamp_min(self(), low); });
}
const Tensor& InPlaceMembers::clamp_min_(Scalar low) const {
  return become("clamp_min_", self(), false, [&] { return hero::clamp_min(self(), low); });
}
const Tensor& InPlaceMembers::clamp_max_(const Tensor& high) const {
  return become("clamp_max_", self(), wants("clamp_max_", high),
                [&] { return hero::clamp_max(self(), high); });
}
const Tensor& InPlaceMembers::clamp_max_(Scalar high) const {
  return become("clamp_max_", self(), false, [&] { return hero::clamp_max(self(), high); });
}
const Tensor& InPlaceMembers::lerp_(const Tensor& end, double weight) const {
  return become("lerp_", self(), wants("lerp_", end),
                [&] { return hero::lerp(self(), end, weight); });
}
const Tensor& InPlaceMembers::lerp_(const Tensor& end, const Tensor& weight) const {
  return become("lerp_", self(), wants("lerp_", end) || wants("lerp_", weight),
                [&] { return hero::lerp(self(), end, weight); });
}
const Tensor& InPlaceMembers::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  return become("addcmul_", self(), wants("addcmul_", a) || wants("addcmul_", b),
                [&] { return hero::addcmul(self(), a, b, value); });
}
const Tensor& InPlaceMembers::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return become("addcdiv_", self(), wants("addcdiv_", a) || wants("addcdiv_", b),
                [&] { return hero::addcdiv(self(), a, b, value); });
}
const Tensor& InPlaceMembers::masked_fill_(const Tensor& mask, Scalar value) const {
  return detail::write_in_place(
      "masked_fill_", self(), wants("masked_fill_", mask),
      [&] { return hero::masked_fill(self(), mask, value); },
      [&](const Array& array) {
        const bool fits_there =
            mask.defined() && mask.dtype() == kBool && mask.device() == array.device() &&
            fits(value, array.dtype()) &&
            broadcast_shapes("masked_fill_", array.shape(), mask.shape()) == array.shape();
        if (!fits_there || &mask.array().storage() == &array.storage()) {
          const NoGrad no_grad;
          return detail::overwrite("masked_fill_", array,
                                   hero::masked_fill(self(), mask, value).array());
        }
        core::check_no_overlap("masked_fill_", array);
        const Scalar number = cut_to(value, array.dtype());
        core::map_into<core::kernels::Where>(array, mask.array(), number, array);
        array.storage().bump_version();
      });
}
const Tensor& InPlaceMembers::masked_fill_(const Tensor& mask, const Tensor& value) const {
  return become("masked_fill_", self(), wants("masked_fill_", mask) || wants("masked_fill_", value),
                [&] { return hero::masked_fill(self(), mask, value); });
}
const Tensor& InPlaceMembers::logical_and_(const Tensor& other) const {
  return become("logical_and_", self(), wants("logical_and_", other),
                [&] { return hero::logical_and(self(), other); });
}
const Tensor& InPlaceMembers::logical_or_(const Tensor& other) const {
  return become("logical_or_", self(), wants("logical_or_", other),
                [&] { return hero::logical_or(self(), other); });
}
const Tensor& InPlaceMembers::logical_xor_(const Tensor& other) const {
  return become("logical_xor_", self(), wants("logical_xor_", other),
                [&] { return hero::logical_xor(self(), other); });
}
const Tensor& InPlaceMembers::logical_not_() const {
  return become("logical_not_", self(), false, [&] { return hero::logical_not(self()); });
}
const Tensor& InPlaceMembers::bitwise_and_(const Tensor& other) const {
  return become("bitwise_and_", self(), wants("bitwise_and_", other),
                [&] { return hero::bitwise_and(self(), other); });
}
const Tensor& InPlaceMembers::bitwise_or_(const Tensor& other) const {
  return become("bitwise_or_", self(), wants("bitwise_or_", other),
                [&] { return hero::bitwise_or(self(), other); });
}
const Tensor& InPlaceMembers::bitwise_xor_(const Tensor& other) const {
  return become("bitwise_xor_", self(), wants("bitwise_xor_", other),
                [&] { return hero::bitwise_xor(self(), other); });
}
const Tensor& InPlaceMembers::bitwise_not_() const {
  return become("bitwise_not_", self(), false, [&] { return hero::bitwise_not(self()); });
}
const Tensor& InPlaceMembers::bitwise_left_shift_(const Tensor& places) const {
  return become("bitwise_left_shift_", self(), wants("bitwise_left_shift_", places),
                [&] { return hero::bitwise_left_shift(self(), places); });
}
const Tensor& InPlaceMembers::bitwise_right_shift_(const Tensor& places) const {
  return become("bitwise_right_shift_", self(), wants("bitwise_right_shift_", places),
                [&] { return hero::bitwise_right_shift(self(), places); });
}
const Tensor& InPlaceMembers::tril_(int64_t diagonal) const {
  return become("tril_", self(), false, [&] { return hero::tril(self(), diagonal); });
}
const Tensor& InPlaceMembers::triu_(int64_t diagonal) const {
  return become("triu_", self(), false, [&] { return hero::triu(self(), diagonal); });
}
const Tensor& InPlaceMembers::cumsum_(int64_t dim) const {
  return become("cumsum_", self(), false, [&] { return hero::cumsum(self(), dim); });
}
const Tensor& InPlaceMembers::cumprod_(int64_t dim) const {
  return become("cumprod_", self(), false, [&] { return hero::cumprod(self(), dim); });
}
const Tensor& InPlaceMembers::fill_(const Tensor& value) const {
  check(value.ndim() == 0, "fill_: the value has shape ", value.shape(),
        "; it must be a single number without dimensions");
  return self().copy_(value);
}
const Tensor& InPlaceMembers::fill_diagonal_(Scalar value) const {
  check(self().ndim() == 2, "fill_diagonal_: needs a matrix: got shape ", self().shape());
  self().diagonal().fill_(value);
  return self();
}

}  // namespace hero
