#pragma once
// Numbers as unsigned keys of the same order, for sorts on every device.
#include <bit>
#include <cstdint>
#include <type_traits>

#include <hero/core/kernels/config.h>

namespace hero::core {

template <class T>
using SortBits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// The key of x: -0 and 0 have the same key, and NaN has the largest.
template <class T>
HERO_HD SortBits<T> sort_key(T x) {
  using U = SortBits<T>;
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const U bits = std::bit_cast<U>(x == T(0) ? T(0) : x);
    // All bits of a negative number are inverted, of others only the sign: without a branch, which
    // would be expensive for signs in random order.
    const U turned = bits ^ ((U{0} - (bits >> (sizeof(U) * 8 - 1))) | kSign);
    return x != x ? ~U{0} : turned;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<U>(x) ^ kSign;
  } else {
    return x;
  }
}

/// Whether only one number has this key.
template <class T>
HERO_HD bool has_one_number(SortBits<T> key) {
  using U = SortBits<T>;
  return !std::is_floating_point_v<T> || (key != ~U{0} && key != sort_key(T(0)));
}

/// The number of a key that only one number has.
template <class T>
HERO_HD T number_of(SortBits<T> key) {
  using U = SortBits<T>;
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  if constexpr (std::is_floating_point_v<T>) {  // NOLINT(bugprone-branch-clone)
    return std::bit_cast<T>((key & kSign) != 0 ? static_cast<U>(key ^ kSign)
                                               : static_cast<U>(~key));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(key ^ kSign);
  } else {
    return static_cast<T>(key);
  }
}

}  // namespace hero::core
