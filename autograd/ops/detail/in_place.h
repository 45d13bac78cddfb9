#pragma once
// How operations write in place.
#include <hero/autograd/graph/op.h>

namespace hero::detail {

/// Throws an Error if `self` must not be written to while operations are recorded; see
/// Tensor::add_.
void check_writable(const char* op, const Tensor& self);

/// Copies the result of an operation into an array of the same shape; throws an Error if elements
/// of the array overlap.
void overwrite(const char* op, const Array& array, const Array& result);

/// Whether an operand of an operation in place requires grad. Throws an Error while recording if
/// its history is out of date, since its requires_grad is not valid then.
inline bool wants(const char* op, const Tensor& x) {
  return x.defined() && (grad_enabled() ? Recorder::wants_grad(op, x) : x.requires_grad());
}

/// Changes `self` in place: by `direct` if nothing is recorded, else by copying the result of
/// `out_of_place`, which is recorded and whose history `self` then has.
template <class OutOfPlace, class Direct>
const Tensor& write_in_place(const char* op, const Tensor& self, bool others_want_grad,
                             OutOfPlace&& out_of_place, Direct&& direct) {
  const Array& array = self.array();
  if (!grad_enabled() ||
      (!Recorder::wants_grad(op, self) && !others_want_grad && !Recorder::shows_leaf(self))) {
    direct(array);
    return self;
  }
  check_writable(op, self);
  const Tensor result = out_of_place();
  detail::Recorder::copy_saved(result, array.storage());
  overwrite(op, array, result.array());
  detail::Recorder::rebase(self, result.dtype() == self.dtype() ? result : result.to(self.dtype()));
  return self;
}

/// Copies the tensor that `result` returns into `x`, which then has its history.
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
