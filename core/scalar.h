#pragma once
#include <concepts>

#include <hero/core/dtype.h>

namespace hero {

/// A number as an argument beside arrays: it takes the dtype of the array and needs no array of its
/// own. Integers keep all 64 bits; a floating scalar promotes integer arrays to float32, as in
/// PyTorch.
class Scalar {
 public:
  constexpr Scalar() = default;
  template <std::floating_point T>
  constexpr Scalar(T value) : real_(static_cast<double>(value)), kind_(Kind::floating) {}
  template <std::integral T>
  constexpr Scalar(T value)
      : real_(static_cast<double>(value)),
        integer_(static_cast<int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer) {}

  /// The value as element type T.
  template <class T>
  constexpr T to() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return kind_ == Kind::floating ? static_cast<T>(real_) : static_cast<T>(integer_);
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      return static_cast<T>(real_);
    } else {
      return convert<T>(real_);
    }
  }
  constexpr double real() const { return real_; }
  /// The dtype that an array of this value would have: float32, int64 or bool.
  constexpr DType dtype() const {
    return kind_ == Kind::floating ? kFloat32 : (kind_ == Kind::boolean ? kBool : kInt64);
  }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }
  constexpr bool is_boolean() const { return kind_ == Kind::boolean; }

 private:
  enum class Kind : uint8_t { floating, integer, boolean };
  double real_ = 0.0;
  int64_t integer_ = 0;
  Kind kind_ = Kind::floating;
};

/// Returns the promoted dtype of operands of two priorities, such as arrays and scalars: `higher`,
/// the dtype of those that come first, unless `lower` is of a higher kind (bool < integer <
/// floating).
constexpr DType promote_over(DType higher, DType lower) {
  return kind(lower) > kind(higher) ? lower : higher;
}

/// The dtype of an operation between an array of `dtype` and a scalar: a scalar promotes only
/// across kinds, never within one.
constexpr DType promote(DType dtype, const Scalar& scalar) {
  return promote_over(dtype, scalar.dtype());
}

std::string to_string(const Scalar& scalar);

}  // namespace hero
