#pragma once
// Which dtype an operation of several operands computes in, and what may be stored where. The one
// home of PyTorch's rule.
#include <hero/core/scalar.h>

namespace hero {

/// The dtype of an operation of several operands. Operands of the highest kind (bool < integer <
/// floating) decide, and of those arrays with dimensions before arrays of none, and these before
/// numbers: a single float32 number, also as a tensor, leaves rows of bfloat16 what they are.
class Promotion {
 public:
  constexpr void add(DType dtype, int ndim) {
    DType& own = ndim > 0 ? dimensioned_ : single_;
    own = promote(own, dtype);
  }
  constexpr void add(const Scalar& number) { number_ = promote(number_, number.dtype()); }
  constexpr DType dtype() const {
    return promote_over(dimensioned_, promote_over(single_, number_));
  }

 private:
  // bool, which promotes nothing, also stands for "there is none".
  DType dimensioned_ = kBool, single_ = kBool, number_ = kBool;
};

/// True where values of dtype `from` may be stored in place in an array of dtype `to`: of a lower
/// kind they would be cut.
constexpr bool can_store(DType from, DType to) { return kind(from) <= kind(to); }

/// True where `dtype` holds the number, its fraction aside. Negative numbers fit uint8 down to
/// -255 and wrap, as in PyTorch.
bool fits(const Scalar& number, DType dtype);

/// The number as an array of `dtype` holds it: without its fraction where that is an integer.
Scalar cut_to(const Scalar& number, DType dtype);

}  // namespace hero
