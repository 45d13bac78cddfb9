#pragma once
// The bases of functors on elements, and their properties.
#include <cstdint>
#include <type_traits>

#include <hero/core/kernels/math.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::core::kernels {

/// The element types in which a functor computes. If it computes only floats, integers are
/// converted to float32; if it computes only integers, floats are an Error.
enum class Domain : uint8_t { floats, numbers, integers };

struct OnFloats {
  static constexpr Domain domain = Domain::floats;
  static constexpr bool predicate = false;
  /// True: the CPU has separate loops for a floating input of which one element is repeated for
  /// all; worth their code size for functors that networks use.
  static constexpr bool repeats = false;
  /// True: CUDA has a second kernel, which moves 16 bytes of each array at a time; worth its
  /// compile time for functors that networks use.
  static constexpr bool vectors = true;
};
struct OnNumbers : OnFloats {
  static constexpr Domain domain = Domain::numbers;
};
struct OnIntegers : OnFloats {
  static constexpr Domain domain = Domain::integers;
};
/// A functor without the second kernel: it takes longer to compute an element than to move it.
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
