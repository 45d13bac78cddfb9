#pragma once
// Arithmetic of elements that wraps where integers are too large for their type, as two's
// complement does: C++ leaves that open for signed numbers, so they are computed unsigned. Floats
// are computed as they are.
#include <cstdint>

#include <hero/core/kernels/config.h>

namespace hero::core {

template <class T>
struct WrappingType {
  using type = T;  // smaller integers become int, where nothing overflows
};
template <>
struct WrappingType<int32_t> {
  using type = uint32_t;
};
template <>
struct WrappingType<int64_t> {
  using type = uint64_t;
};
/// The type in which arithmetic on T is computed.
template <class T>
using Wrapping = typename WrappingType<T>::type;

template <class T>
HERO_HD constexpr T wrapping_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
HERO_HD constexpr T wrapping_sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
HERO_HD constexpr T wrapping_mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
/// The lowest integer is its own negative.
template <class T>
HERO_HD constexpr T wrapping_neg(T a) {
  return static_cast<T>(-static_cast<Wrapping<T>>(a));
}

}  // namespace hero::core
