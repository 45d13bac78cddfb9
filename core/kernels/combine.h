#pragma once
// How the contributions of several ranks become one, element by element: the arithmetic that the
// sums of the host and those of a device share, so that they give the same bits.
#include <cstdint>
#include <type_traits>

#include <hero/core/kernels/config.h>
#include <hero/core/kernels/half.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::core {

/// dist::ReduceOp, which says what each of them means, for core and cuda.
enum class Combine : uint8_t { sum, product, min, max, mean };

/// The functors and types of Combine.
namespace combining {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// What a dtype is added up in: integers unsigned, so that they wrap by definition.
template <class T>
struct SumType {
  using type = Wrapping<T>;
};
template <>
struct SumType<Float16> {
  using type = float;
};
template <>
struct SumType<BFloat16> {
  using type = float;
};
/// What a dtype is compared in.
template <class T>
using ComparedType = std::conditional_t<kIsHalf<T>, float, T>;

struct Add {
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Multiply {
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
// A NaN on either side stays: no comparison with it is true.
struct Smaller {
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return (b < a || b != b) ? b : a;
  }
};
struct Larger {
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return (b > a || b != b) ? b : a;
  }
};

// What is done to the last sum.
struct Keep {
  template <class T>
  HERO_HD T operator()(T a) const {
    return a;
  }
};
template <class T>
struct Scale {
  T factor;
  HERO_HD T operator()(T a) const { return a * factor; }
};
template <class T>
struct Divide {
  T divisor;
  HERO_HD T operator()(T a) const { return a / divisor; }
};

}  // namespace combining
}  // namespace hero::core
