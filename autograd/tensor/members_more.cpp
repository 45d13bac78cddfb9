// TensorMembers: what only forwards to functions.
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

const Tensor& InPlaceMembers::self() const { return static_cast<const Tensor&>(*this); }

Tensor TensorMembers::asin() const { return hero::asin(self()); }
Tensor TensorMembers::acos() const { return hero::acos(self()); }
Tensor TensorMembers::asinh() const { return hero::asinh(self()); }
Tensor TensorMembers::acosh() const { return hero::acosh(self()); }
Tensor TensorMembers::atanh() const { return hero::atanh(self()); }
Tensor TensorMembers::log10() const { return hero::log10(self()); }
Tensor TensorMembers::erfc() const { return hero::erfc(self()); }
Tensor TensorMembers::erfinv() const { return hero::erfinv(self()); }
Tensor TensorMembers::lgamma() const { return hero::lgamma(self()); }
Tensor TensorMembers::digamma() const { return hero::digamma(self()); }
Tensor TensorMembers::polygamma(int64_t n) const { return hero::polygamma(n, self()); }
Tensor TensorMembers::mvlgamma(int64_t p) const { return hero::multigammaln(self(), p); }
Tensor TensorMembers::igamma(const Tensor& x) const { return hero::gammainc(self(), x); }
Tensor TensorMembers::igammac(const Tensor& x) const { return hero::gammaincc(self(), x); }
Tensor TensorMembers::i0() const { return hero::i0(self()); }
Tensor TensorMembers::gcd(const Tensor& other) const { return hero::gcd(self(), other); }
Tensor TensorMembers::lcm(const Tensor& other) const { return hero::lcm(self(), other); }
Tensor TensorMembers::ldexp(const Tensor& exponent) const { return hero::ldexp(self(), exponent); }
Tensor TensorMembers::logaddexp2(const Tensor& other) const {
  return hero::logaddexp2(self(), other);
}
Frexp TensorMembers::frexp() const { return hero::frexp(self()); }
Tensor TensorMembers::nextafter(const Tensor& towards) const {
  return hero::nextafter(self(), towards);
}
Tensor TensorMembers::where(const Tensor& condition, const Tensor& other) const {
  return hero::where(condition, self(), other);
}
Tensor TensorMembers::sum_to_size(const Shape& shape) const { return hero::sum_to(self(), shape); }
Tensor TensorMembers::logit(std::optional<double> eps) const { return hero::logit(self(), eps); }
Tensor TensorMembers::sinc() const { return hero::sinc(self()); }
Tensor TensorMembers::xlogy(const Tensor& other) const { return hero::xlogy(self(), other); }
Tensor TensorMembers::xlogy(Scalar other) const { return hero::xlogy(self(), other); }
Tensor TensorMembers::hypot(const Tensor& other) const { return hero::hypot(self(), other); }
Tensor TensorMembers::copysign(const Tensor& other) const { return hero::copysign(self(), other); }
Tensor TensorMembers::copysign(Scalar other) const { return hero::copysign(self(), other); }
Tensor TensorMembers::deg2rad() const { return hero::deg2rad(self()); }
Tensor TensorMembers::rad2deg() const { return hero::rad2deg(self()); }
Tensor TensorMembers::float_power(const Tensor& exponent) const {
  return hero::float_power(self(), exponent);
}
Tensor TensorMembers::float_power(Scalar exponent) const {
  return hero::float_power(self(), exponent);
}
Tensor TensorMembers::nan_to_num() const { return hero::nan_to_num(self()); }
Tensor TensorMembers::trunc() const { return hero::trunc(self()); }
Tensor TensorMembers::fix() const { return hero::fix(self()); }
Tensor TensorMembers::frac() const { return hero::frac(self()); }
Tensor TensorMembers::round(int64_t decimals) const { return hero::round(self(), decimals); }
Tensor TensorMembers::floor_divide(const Tensor& other) const {
  return hero::floor_divide(self(), other);
}
Tensor TensorMembers::floor_divide(Scalar other) const { return hero::floor_divide(self(), other); }
Tensor TensorMembers::div(const Tensor& other, Rounding rounding) const {
  return hero::div(self(), other, rounding);
}
Tensor TensorMembers::div(Scalar other, Rounding rounding) const {
  return hero::div(self(), other, rounding);
}
Tensor TensorMembers::fmod(const Tensor& other) const { return hero::fmod(self(), other); }
Tensor TensorMembers::fmod(Scalar other) const { return hero::fmod(self(), other); }
Tensor TensorMembers::bitwise_and(const Tensor& other) const {
  return hero::bitwise_and(self(), other);
}
Tensor TensorMembers::bitwise_and(Scalar other) const { return hero::bitwise_and(self(), other); }
Tensor TensorMembers::bitwise_or(const Tensor& other) const {
  return hero::bitwise_or(self(), other);
}
Tensor TensorMembers::bitwise_or(Scalar other) const { return hero::bitwise_or(self(), other); }
Tensor TensorMembers::bitwise_xor(const Tensor& other) const {
  return hero::bitwise_xor(self(), other);
}
Tensor TensorMembers::bitwise_xor(Scalar other) const { return hero::bitwise_xor(self(), other); }
Tensor TensorMembers::bitwise_not() const { return hero::bitwise_not(self()); }
Tensor TensorMembers::bitwise_left_shift(const Tensor& places) const {
  return hero::bitwise_left_shift(self(), places);
}
Tensor TensorMembers::bitwise_left_shift(Scalar places) const {
  return hero::bitwise_left_shift(self(), places);
}
Tensor TensorMembers::bitwise_right_shift(const Tensor& places) const {
  return hero::bitwise_right_shift(self(), places);
}
Tensor TensorMembers::bitwise_right_shift(Scalar places) const {
  return hero::bitwise_right_shift(self(), places);
}
Tensor TensorMembers::clamp(const Tensor& low, const Tensor& high) const {
  return hero::clamp(self(), low, high);
}
Tensor TensorMembers::clamp_min(const Tensor& low) const { return hero::clamp_min(self(), low); }
Tensor TensorMembers::clamp_min(Scalar low) const { return hero::clamp_min(self(), low); }
Tensor TensorMembers::clamp_max(const Tensor& high) const { return hero::clamp_max(self(), high); }
Tensor TensorMembers::clamp_max(Scalar high) const { return hero::clamp_max(self(), high); }
Tensor TensorMembers::max(const Tensor& other) const { return hero::maximum(self(), other); }
Tensor TensorMembers::min(const Tensor& other) const { return hero::minimum(self(), other); }
Tensor TensorMembers::var(std::initializer_list<int64_t> dims, bool keepdim) const {
  return self().var(Dims(dims), keepdim);
}
Tensor TensorMembers::std(std::initializer_list<int64_t> dims, bool keepdim) const {
  return self().std(Dims(dims), keepdim);
}
Tensor TensorMembers::fmax(const Tensor& other) const { return hero::fmax(self(), other); }
Tensor TensorMembers::fmin(const Tensor& other) const { return hero::fmin(self(), other); }
Tensor TensorMembers::heaviside(const Tensor& values) const {
  return hero::heaviside(self(), values);
}
Tensor TensorMembers::signbit() const { return hero::signbit(self()); }
Tensor TensorMembers::isposinf() const { return hero::isposinf(self()); }
Tensor TensorMembers::isneginf() const { return hero::isneginf(self()); }
Tensor TensorMembers::masked_fill(const Tensor& mask, const Tensor& value) const {
  return hero::masked_fill(self(), mask, value);
}
Tensor TensorMembers::movedim(const Dims& source, const Dims& destination) const {
  return hero::movedim(self(), source, destination);
}
Tensor TensorMembers::moveaxis(const Dims& source, const Dims& destination) const {
  return hero::moveaxis(self(), source, destination);
}
Tensor TensorMembers::swapaxes(int64_t axis0, int64_t axis1) const {
  return hero::swapaxes(self(), axis0, axis1);
}
Tensor TensorMembers::swapdims(int64_t dim0, int64_t dim1) const {
  return hero::swapdims(self(), dim0, dim1);
}
Tensor TensorMembers::squeeze(const std::vector<int64_t>& dims) const {
  return hero::squeeze(self(), dims);
}
Tensor TensorMembers::unflatten(int64_t dim, const Shape& sizes) const {
  return hero::unflatten(self(), dim, sizes);
}
Tensor TensorMembers::ravel() const { return hero::ravel(self()); }
Tensor TensorMembers::expand_as(const Tensor& other) const {
  return hero::expand_as(self(), other);
}
Tensor TensorMembers::view_as(const Tensor& other) const { return hero::view_as(self(), other); }
Tensor TensorMembers::reshape_as(const Tensor& other) const {
  return hero::reshape_as(self(), other);
}
Tensor TensorMembers::broadcast_to(const Shape& shape) const {
  return hero::broadcast_to(self(), shape);
}
Tensor TensorMembers::tile(const Dims& repeats) const { return hero::tile(self(), repeats); }
Tensor TensorMembers::fliplr() const { return hero::fliplr(self()); }
Tensor TensorMembers::flipud() const { return hero::flipud(self()); }
Tensor TensorMembers::rot90(int64_t k, const Dims& dims) const {
  return hero::rot90(self(), k, dims);
}
Tensor TensorMembers::repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim) const {
  return hero::repeat_interleave(self(), repeats, dim);
}
Tensor TensorMembers::repeat_interleave(int64_t repeats) const {
  return hero::repeat_interleave(self(), repeats);
}
Tensor TensorMembers::diag(int64_t offset) const { return hero::diag(self(), offset); }
Tensor TensorMembers::diag_embed(int64_t offset, int64_t dim1, int64_t dim2) const {
  return hero::diag_embed(self(), offset, dim1, dim2);
}
Tensor TensorMembers::diagflat(int64_t offset) const { return hero::diagflat(self(), offset); }
Tensor TensorMembers::trace() const { return hero::trace(self()); }
std::vector<Tensor> TensorMembers::tensor_split(int64_t sections, int64_t dim) const {
  return hero::tensor_split(self(), sections, dim);
}
std::vector<Tensor> TensorMembers::tensor_split(const std::vector<int64_t>& indices,
                                                int64_t dim) const {
  return hero::tensor_split(self(), indices, dim);
}
std::vector<Tensor> TensorMembers::tensor_split(const Tensor& indices_or_sections,
                                                int64_t dim) const {
  return hero::tensor_split(self(), indices_or_sections, dim);
}
std::vector<Tensor> TensorMembers::hsplit(int64_t sections) const {
  return hero::hsplit(self(), sections);
}
std::vector<Tensor> TensorMembers::vsplit(int64_t sections) const {
  return hero::vsplit(self(), sections);
}
std::vector<Tensor> TensorMembers::dsplit(int64_t sections) const {
  return hero::dsplit(self(), sections);
}
Tensor TensorMembers::multinomial(int64_t num_samples, bool replacement) const {
  return hero::multinomial(self(), num_samples, replacement);
}
Tensor TensorMembers::bernoulli() const { return hero::bernoulli(self()); }

}  // namespace hero
