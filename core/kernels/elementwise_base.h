#pragma once
// What functors on elements are made of.
#include <cstdint>
#include <type_traits>

#include <hero/core/kernels/math.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::core::kernels {

/// Which element types a functor computes in. Other inputs are converted: integers to float32 where
/// only floats are computed; floats are refused where only integers are.
enum class Domain : uint8_t { floats, numbers, integers };

struct OnFloats {
  static constexpr Domain domain = Domain::floats;
  static constexpr bool predicate = false;
  /// The CPU has loops of their own where one element of a floating input is taken for all; worth
  /// their size for what networks are made of.
  static constexpr bool repeats = false;
  /// CUDA has a second kernel, which moves 16 bytes of each array at a time; worth its compile time
  /// for what networks are made of.
  static constexpr bool vectors = true;
};
struct OnNumbers : OnFloats {
  static constexpr Domain domain = Domain::numbers;
};
struct OnIntegers : OnFloats {
  static constexpr Domain domain = Domain::integers;
};
/// Without that second kernel: a thread computes one element, which takes longer than to move it.
template <class Base>
struct OneByOne : Base {
  static constexpr bool vectors = false;
};
/// The result is bool.
struct Predicate : OnNumbers {
  static constexpr bool predicate = true;
};

/// Whether a functor computes in element type T.
template <class F, class T>
constexpr bool computes_in() {
  if (F::domain == Domain::floats) return std::is_floating_point_v<T>;
  return F::domain == Domain::numbers || std::is_integral_v<T>;
}

// Derived numbers in the element's own type: an int8-sized product must not widen to int.
template <class T>
HERO_HD constexpr T as(auto value) {
  return static_cast<T>(value);
}
template <class T>
HERO_HD inline bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

}  // namespace hero::core::kernels
