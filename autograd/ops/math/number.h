#pragma once
// Numbers in front of tensors.
#include <hero/autograd/creation.h>

namespace hero::detail {

/// The number as a tensor without dimensions, converted to `dtype` as an element is: integers wrap,
/// and what is too large for a float is infinite.
inline Tensor number_of_dtype(const Scalar& number, DType dtype, Device device) {
  const DType exact = number.is_floating() ? kFloat64 : number.dtype();
  return full({}, number, {.dtype = exact, .device = device}).to(dtype);
}

}  // namespace hero::detail
