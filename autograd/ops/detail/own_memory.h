#pragma once
// own_memory(), for operations whose result is never a view: not for any argument either.
#include <hero/autograd/ops/shape/shape.h>

namespace hero::detail {

/// `result`, or a copy of it where it shares x's memory: who writes to it must not change x.
inline Tensor own_memory(const Tensor& result, const Tensor& x) {
  return result.array().storage_ref() == x.array().storage_ref() ? clone(result) : result;
}

}  // namespace hero::detail
