#pragma once
// What convolutions as products with columns of windows share.
#include <hero/core/array.h>
#include <hero/core/planned_device.h>

namespace hero::detail {

/// Columns that are held at once: enough for large products, no more than a few images of a large
/// network. A GPU needs more of them to be busy.
inline int64_t column_bytes(Device device) {
  return int64_t{core::kernels_of(device) == DeviceType::cuda ? 256 : 4} << 20;
}

/// Halves are multiplied as float and rounded once; a GPU multiplies them as they are.
inline DType column_dtype(const Array& x) {
  if (core::kernels_of(x.device()) == DeviceType::cuda) return x.dtype();
  return x.dtype() == kFloat64 ? kFloat64 : kFloat32;
}

}  // namespace hero::detail
