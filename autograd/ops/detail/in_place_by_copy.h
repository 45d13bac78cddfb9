#pragma once
// Operations in place whose values are those of their counterparts: computed, then copied over.
#include <hero/autograd/ops/detail/in_place.h>

namespace hero::detail {

/// Changes `x` to what `result` gives, and its history to that of the result.
template <class F>
const Tensor& become(const char* op, const Tensor& x, bool others_want_grad, F&& result) {
  return write_in_place(op, x, others_want_grad, result, [&](const Array& a) {
    const NoGrad no_grad;
    overwrite(op, a, result().array());
  });
}

inline const Tensor& become(const char* op, const Tensor& x, Tensor (*f)(const Tensor&)) {
  return become(op, x, false, [&] { return f(x); });
}

}  // namespace hero::detail
