#pragma once
// Numbers as operands beside tensors.
#include <hero/autograd/ops/creation/creation.h>

namespace hero::detail {

/// The number as a tensor without dimensions, converted to `dtype` as elements are: integers wrap,
/// and a number too large for a floating dtype becomes infinite.
inline Tensor number_of_dtype(const Scalar& number, DType dtype, Device device) {
  const DType exact = number.is_floating() ? kFloat64 : number.dtype();
  return full({}, number, {.dtype = exact, .device = device}).to(dtype);
}

/// The number as a tensor, in the dtype that it has beside x in a function of floats.
inline Tensor float_beside(const Tensor& x, const Scalar& number) {
  const DType dtype = promote(x.dtype(), number);
  return number_of_dtype(number, is_floating(dtype) ? dtype : kFloat32, x.device());
}

/// The number rounded to a floating dtype.
inline double as_element(const Scalar& number, DType dtype) {
  if (dtype == kFloat16) return static_cast<float>(number.to<Float16>());
  if (dtype == kBFloat16) return static_cast<float>(number.to<BFloat16>());
  return number.real();
}

}  // namespace hero::detail
