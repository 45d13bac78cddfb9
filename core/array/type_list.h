#pragma once
#include <cstdint>

namespace hero {

/// A list of types; its order numbers them.
template <class... Ts>
struct TypeList {
  static constexpr int size = sizeof...(Ts);
  /// Position of T; a type that is not in the list does not compile.
  template <class T>
  static constexpr uint16_t index_of() {
    constexpr bool same[] = {__is_same(T, Ts)...};
    constexpr uint16_t found = [&] {
      uint16_t i = 0;
      while (i < size && !same[i]) ++i;
      return i;
    }();
    static_assert(found < size, "this functor is not in the list");
    return found;
  }
};

}  // namespace hero
