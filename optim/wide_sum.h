#pragma once
#include <hero/core/backend.h>

namespace hero::optim {

/// A reduction over all elements, computed in float64: squares neither overflow nor lose digits,
/// and cutting an array into shards changes the result by some 1e-16 of it only. 0 on meta, where
/// there are no values.
inline double wide_reduce(core::ReduceOp op, const Array& x) {
  if (x.device().type == DeviceType::meta || x.numel() == 0) return 0.0;
  const Array out = Array::empty({1}, kFloat64, x.device());
  core::backend(x.device()).reduce(op, x.contiguous().reshape({-1}), nullptr, out);
  return out.item();
}

}  // namespace hero::optim
