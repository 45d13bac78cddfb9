#pragma once
// The dtype in which an operation of several operands computes, and which values an array can
// store, by PyTorch's rules.
#include <hero/core/scalar.h>

namespace hero {

/// The dtype of an operation of several operands. The operands of the highest kind (bool < integer
/// < floating) decide, and among these, arrays with dimensions before arrays without, and these
/// before numbers: a single float32 number, even as a tensor, does not change the dtype of a
/// bfloat16 vector.
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

/// True if values of dtype `from` may be stored in place in an array of dtype `to`; an array of a
/// lower kind cannot represent them.
constexpr bool can_store(DType from, DType to) { return kind(from) <= kind(to); }

/// True if `dtype` can represent the number, apart from its fraction. Negative numbers down to -255
/// fit uint8 and wrap, as in PyTorch.
bool fits(const Scalar& number, DType dtype);

/// The number as an array of `dtype` stores it: for an integer dtype, without its fraction.
Scalar cut_to(const Scalar& number, DType dtype);

}  // namespace hero
