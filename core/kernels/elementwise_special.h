#pragma once
// Functors that training seldom needs: special functions, integer quotients, operations on bits.
#include <hero/core/kernels/elementwise_base.h>
#include <hero/core/kernels/math_special.h>
#if defined(__CUDACC__)
#include <hero/core/kernels/math_rare_of.h>
#else
#include <hero/core/kernels/math_rare.h>
#endif

namespace hero::core::kernels {

// The functors that only forward to a math function.
#define HERO_FORWARD(Type, function)                                    \
  struct Type : OneByOne<OnFloats> {                                    \
    static constexpr int arity = 1;                                     \
    static constexpr auto name = #function;                             \
    HERO_HD auto operator()(auto x) const { return math::function(x); } \
  };
// One line a function, as in elementwise.h.
HERO_FORWARD(Tan, tan)
HERO_FORWARD(Atan, atan)
HERO_FORWARD(Sinh, sinh)
HERO_FORWARD(Cosh, cosh)
HERO_FORWARD(Asin, asin)
HERO_FORWARD(Acos, acos)
HERO_FORWARD(Asinh, asinh)
HERO_FORWARD(Acosh, acosh)
HERO_FORWARD(Atanh, atanh)
HERO_FORWARD(Log10, log10)
HERO_FORWARD(Erfc, erfc)
HERO_FORWARD(Erfinv, erfinv)
HERO_FORWARD(Lgamma, lgamma)
HERO_FORWARD(Digamma, digamma)
#undef HERO_FORWARD

/// number, x, y: the function of math_rare.h with this number.
struct Rare : OneByOne<OnFloats> {
  static constexpr int arity = 3;
  static constexpr auto name = "rare";
  template <class T>
  HERO_HD T operator()(T number, T x, T y) const {
    constexpr int kNone = 255;
    const int which = number >= T(0) && number < T(kNone) ? static_cast<int>(number) : kNone;
    return static_cast<T>(math::rare(static_cast<math::Rare>(which), x, y));
  }
};
struct Hypot : OneByOne<OnFloats> {
  static constexpr int arity = 2;
  static constexpr auto name = "hypot";
  HERO_HD auto operator()(auto a, auto b) const { return math::hypot(a, b); }
};
/// a's magnitude with b's sign, also that of a zero.
struct Copysign : OnFloats {
  static constexpr int arity = 2;
  static constexpr auto name = "copysign";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return std::copysign(a, b);
  }
};
/// x log(y), 0 where x is 0 and y is not NaN.
struct Xlogy : OnFloats {
  static constexpr int arity = 2;
  static constexpr auto name = "xlogy";
  template <class T>
  HERO_HD T operator()(T x, T y) const {
    const T product = x * math::log(y);
    return x == T(0) && !is_nan(y) ? T(0) : product;
  }
};

/// Towards zero.
struct Trunc : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "trunc";
  template <class T>
  HERO_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
};
/// Remainder with the dividend's sign, as C's; an integer divisor of 0 gives 0.
struct Fmod : OneByOne<OnNumbers> {
  static constexpr int arity = 2;
  static constexpr auto name = "fmod";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::fmod(a, b);
    } else {
      // The lowest number over -1 traps: its quotient does not exist.
      if (b == 0 || (std::is_signed_v<T> && b == as<T>(-1))) return T(0);
      return as<T>(a % b);
    }
  }
};
/// The quotient rounded down, as Python's //: of floats that of the exact remainder; an integer
/// divisor of 0 gives 0.
struct FloorDivide : OneByOne<OnNumbers> {
  static constexpr int arity = 2;
  static constexpr auto name = "floor_divide";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return of_floats(a, b);
    } else {
      if (b == 0) return T(0);
      if (std::is_signed_v<T> && b == as<T>(-1)) return wrapping_neg(a);
      const T quotient = as<T>(a / b);
      return a % b != 0 && ((a < 0) != (b < 0)) ? as<T>(quotient - 1) : quotient;
    }
  }

 private:
  template <class T>
  HERO_HD static T of_floats(T a, T b) {
    if (b == T(0)) return a / b;
    const T rest = math::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
    if (quotient == T(0)) return std::copysign(T(0), a / b);
    const T whole = math::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  }
};
/// The quotient rounded towards zero; an integer divisor of 0 gives 0.
struct TruncDivide : OnNumbers {
  static constexpr int arity = 2;
  static constexpr auto name = "trunc_divide";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::trunc(a / b);
    } else {
      if (b == 0) return T(0);
      if (std::is_signed_v<T> && b == as<T>(-1)) return wrapping_neg(a);
      return as<T>(a / b);
    }
  }
};

/// The greatest common divisor of the magnitudes, by Euclid's algorithm.
struct Gcd : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "gcd";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    uint64_t x = magnitude(a), y = magnitude(b);
    while (y != 0) {
      const uint64_t rest = x % y;
      x = y;
      y = rest;
    }
    return as<T>(x);
  }

 private:
  template <class T>
  HERO_HD static uint64_t magnitude(T x) {
    const auto bits = static_cast<uint64_t>(x);
    return x < 0 ? uint64_t{0} - bits : bits;
  }
};

struct BitwiseAnd : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "bitwise_and";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return as<T>(a & b);
  }
};
struct BitwiseOr : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "bitwise_or";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return as<T>(a | b);
  }
};
struct BitwiseXor : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "bitwise_xor";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return as<T>(a ^ b);
  }
};
/// x, places: 0 where all bits leave or the places are negative.
struct ShiftLeft : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "bitwise_left_shift";
  template <class T>
  HERO_HD T operator()(T x, T places) const {
    constexpr T kBits = as<T>(8 * sizeof(T));
    if (places < 0 || places >= kBits) return T(0);
    return as<T>(static_cast<uint64_t>(x) << static_cast<uint64_t>(places));
  }
};
/// x, places: the sign moves in; as many places as there are bits where they are more or negative.
struct ShiftRight : OnIntegers {
  static constexpr int arity = 2;
  static constexpr auto name = "bitwise_right_shift";
  template <class T>
  HERO_HD T operator()(T x, T places) const {
    constexpr T kBits = as<T>(8 * sizeof(T));
    if (places < 0 || places >= kBits) return x < 0 ? as<T>(-1) : T(0);
    return as<T>(x >> places);
  }
};

}  // namespace hero::core::kernels
