#pragma once
// Every elementwise operation as a functor on one element, for host and device: a line here is the
// kernel of each backend and the name in errors. Parameters (slopes, bounds) are operands like any
// other, given as scalars. Integers wrap.
#include <hero/core/array/type_list.h>
#include <hero/core/kernels/elementwise_backward.h>
#include <hero/core/kernels/elementwise_special.h>

namespace hero::core::kernels {

// The functors that only forward to a math function, whose name is theirs unless another is given.
#define HERO_FORWARD_AS(Type, label, function)                          \
  struct Type : OnFloats {                                              \
    static constexpr int arity = 1;                                     \
    static constexpr auto name = label;                                 \
    HERO_HD auto operator()(auto x) const { return math::function(x); } \
  };
#define HERO_FORWARD(Type, function) HERO_FORWARD_AS(Type, #function, function)
// One line a function instead of five: the name, the function and the error text cannot drift
// apart.
HERO_FORWARD(Exp2, exp2)
HERO_FORWARD(Expm1, expm1)
HERO_FORWARD(Log, log)
HERO_FORWARD(Log2, log2)
HERO_FORWARD(Log1p, log1p)
HERO_FORWARD(Sqrt, sqrt)
HERO_FORWARD(Rsqrt, rsqrt)
HERO_FORWARD(Sin, sin)
HERO_FORWARD(Cos, cos)
HERO_FORWARD(LogSigmoid, logsigmoid)
HERO_FORWARD(Erf, erf)
HERO_FORWARD(Gelu, gelu)
HERO_FORWARD(GeluTanh, gelu_tanh)
HERO_FORWARD(Silu, silu)
HERO_FORWARD(Mish, mish)
HERO_FORWARD_AS(Exp, "exp", exp_in_vectors)
HERO_FORWARD_AS(Sigmoid, "sigmoid", sigmoid_in_vectors)
HERO_FORWARD_AS(Tanh, "tanh", tanh_in_vectors)
#undef HERO_FORWARD
#undef HERO_FORWARD_AS

struct Neg : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "neg";
  template <class T>
  HERO_HD T operator()(T x) const {
    return wrapping_neg(x);
  }
};
struct Abs : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "abs";
  template <class T>
  HERO_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return math::abs(x);
    return x < 0 ? wrapping_neg(x) : x;
  }
};
struct Sign : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "sign";
  template <class T>
  HERO_HD T operator()(T x) const {
    return as<T>(as<int>(x > 0) - as<int>(x < 0));
  }
};
struct Square : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "square";
  template <class T>
  HERO_HD T operator()(T x) const {
    return wrapping_mul(x, x);
  }
};
/// x^3; of float computed in double and rounded once.
struct Cube : OnFloats {
  static constexpr int arity = 1;
  static constexpr auto name = "pow";
  template <class T>
  HERO_HD T operator()(T x) const {
    const double wide = x;
    return static_cast<T>(wide * wide * wide);
  }
};
struct Reciprocal : OnFloats {
  static constexpr int arity = 1;
  static constexpr auto name = "reciprocal";
  template <class T>
  HERO_HD T operator()(T x) const {
    return T(1) / x;
  }
};
struct Floor : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "floor";
  template <class T>
  HERO_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return math::floor(x);
    return x;
  }
};
struct Ceil : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "ceil";
  template <class T>
  HERO_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -math::floor(-x);
    return x;
  }
};
/// Half to even, as IEEE 754 and NumPy.
struct Round : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "round";
  template <class T>
  HERO_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return math::round(x);
    return x;
  }
};
struct Relu : OnNumbers {
  static constexpr int arity = 1;
  static constexpr auto name = "relu";
  template <class T>
  HERO_HD T operator()(T x) const {
    return x > 0 || is_nan(x) ? x : T(0);
  }
};
// [snippet: functor]
struct Softsign : OnFloats {
  static constexpr int arity = 1;
  static constexpr auto name = "softsign";
  template <class T>
  HERO_HD T operator()(T x) const {
    return x / (T(1) + math::abs(x));
  }
};
// [end]
struct Hardswish : OnFloats {
  static constexpr int arity = 1;
  static constexpr auto name = "hardswish";
  template <class T>
  HERO_HD T operator()(T x) const {
    const T shifted = x + T(3);
    const T gate = shifted > T(6) ? T(6) : (shifted < T(0) ? T(0) : shifted);
    return x * gate / T(6);
  }
};
/// x, slope
struct LeakyRelu : OnFloats {
  static constexpr int arity = 2;
  static constexpr auto name = "leaky_relu";
  template <class T>
  HERO_HD T operator()(T x, T slope) const {
    return x > T(0) ? x : x * slope;
  }
};
/// x, alpha
struct Elu : OnFloats {
  static constexpr int arity = 2;
  static constexpr auto name = "elu";
  template <class T>
  HERO_HD T operator()(T x, T alpha) const {
    const T below = alpha * math::expm1(x);
    return x > T(0) ? x : below;
  }
};
/// x, beta, threshold
struct Softplus : OnFloats {
  static constexpr int arity = 3;
  static constexpr auto name = "softplus";
  template <class T>
  HERO_HD T operator()(T x, T beta, T threshold) const {
    return math::softplus(x, beta, threshold);
  }
};
/// x, low, high; NaN stays, and a bound that is NaN gives NaN.
struct Clamp : OnNumbers {
  static constexpr int arity = 3;
  static constexpr bool repeats = true;
  static constexpr auto name = "clamp";
  template <class T>
  HERO_HD T operator()(T x, T low, T high) const {
    const T raised = x < low || is_nan(low) ? low : x;
    return raised > high || is_nan(high) ? high : raised;
  }
};

struct Add : OnNumbers {
  static constexpr int arity = 2;
  static constexpr bool repeats = true;
  static constexpr auto name = "add";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return wrapping_add(a, b);
  }
};
struct Sub : OnNumbers {
  static constexpr int arity = 2;
  static constexpr bool repeats = true;
  static constexpr auto name = "sub";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return wrapping_sub(a, b);
  }
};
struct Mul : OnNumbers {
  static constexpr int arity = 2;
  static constexpr bool repeats = true;
  static constexpr auto name = "mul";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return wrapping_mul(a, b);
  }
};
struct Div : OnFloats {
  static constexpr int arity = 2;
  static constexpr bool repeats = true;
  static constexpr auto name = "div";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return a / b;
  }
};
/// Integers stay integers and wrap; a negative power of one is 0, but of 1 and -1 whole.
struct Pow : OnNumbers {
  static constexpr int arity = 2;
  static constexpr auto name = "pow";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return math::pow(a, b);
    } else {
      return power_of_integer(a, b);
    }
  }

 private:
  template <class T>
  HERO_HD static T power_of_integer(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? T(1) : (a == -1 ? T(-1) : T(0));
    }
    // Unsigned, so that it wraps by definition.
    auto factor = static_cast<uint64_t>(a);
    uint64_t result = 1;
    for (auto left = static_cast<uint64_t>(b); left > 0; left >>= 1) {
      if (left & 1u) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};
/// ordinate, abscissa
struct Atan2 : OneByOne<OnFloats> {
  static constexpr int arity = 2;
  static constexpr auto name = "atan2";
  template <class T>
  HERO_HD T operator()(T y, T x) const {
    return math::atan2(y, x);
  }
};
/// Remainder with the sign of the divisor, as Python's %, exact also where the quotient is large;
/// an integer divisor of 0 gives 0.
struct Remainder : OneByOne<OnNumbers> {
  static constexpr int arity = 2;
  static constexpr auto name = "remainder";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = math::fmod(a, b);
      return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
    } else {
      // The lowest number over -1 traps: its quotient does not exist.
      if (b == 0 || (std::is_signed_v<T> && b == as<T>(-1))) return T(0);
      const T rest = as<T>(a % b);
      return rest != 0 && ((rest < 0) != (b < 0)) ? as<T>(rest + b) : rest;
    }
  }
};
/// NaN wins.
struct Maximum : OnNumbers {
  static constexpr int arity = 2;
  static constexpr auto name = "maximum";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return a > b || is_nan(a) ? a : b;
  }
};
/// NaN wins.
struct Minimum : OnNumbers {
  static constexpr int arity = 2;
  static constexpr auto name = "minimum";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    return a < b || is_nan(a) ? a : b;
  }
};
/// log(exp(a) + exp(b)) without overflow.
struct LogAddExp : OnFloats {
  static constexpr int arity = 2;
  static constexpr auto name = "logaddexp";
  template <class T>
  HERO_HD T operator()(T a, T b) const {
    const T high = Maximum{}(a, b);
    const T gap = a == b ? T(0) : -math::abs(a - b);  // inf - inf would be NaN
    return high + math::log1p(math::exp(gap));
  }
};
/// a, b, weight: a + weight * (b - a)
struct Lerp : OnFloats {
  static constexpr int arity = 3;
  static constexpr auto name = "lerp";
  template <class T>
  HERO_HD T operator()(T a, T b, T weight) const {
    return a + weight * (b - a);
  }
};
/// x, a, b, value: x + value * a * b
struct Addcmul : OnNumbers {
  static constexpr int arity = 4;
  static constexpr auto name = "addcmul";
  template <class T>
  HERO_HD T operator()(T x, T a, T b, T value) const {
    return wrapping_add(x, wrapping_mul(wrapping_mul(value, a), b));
  }
};
/// x, scale, shift: x * scale + shift
struct Affine : OnNumbers {
  static constexpr int arity = 3;
  static constexpr bool repeats = true;
  static constexpr auto name = "affine";
  template <class T>
  HERO_HD T operator()(T x, T scale, T shift) const {
    return wrapping_add(wrapping_mul(x, scale), shift);
  }
};
/// condition, a, b
struct Where : OnNumbers {
  static constexpr int arity = 3;
  static constexpr auto name = "where";
  template <class T>
  HERO_HD T operator()(T condition, T a, T b) const {
    return condition != T(0) ? a : b;
  }
};

// The functors that compare or classify.
#define HERO_PREDICATE2(Type, label, expression) \
  struct Type : Predicate {                      \
    static constexpr int arity = 2;              \
    static constexpr auto name = label;          \
    template <class T>                           \
    HERO_HD bool operator()(T a, T b) const {    \
      return expression;                         \
    }                                            \
  };
// Nine functors of one shape; only the expression differs.
HERO_PREDICATE2(Equal, "eq", a == b)
HERO_PREDICATE2(NotEqual, "ne", a != b)
HERO_PREDICATE2(Less, "lt", a < b)
HERO_PREDICATE2(LessEqual, "le", a <= b)
HERO_PREDICATE2(Greater, "gt", a > b)
HERO_PREDICATE2(GreaterEqual, "ge", a >= b)
HERO_PREDICATE2(LogicalAnd, "logical_and", (a != T(0)) & (b != T(0)))
HERO_PREDICATE2(LogicalOr, "logical_or", (a != T(0)) | (b != T(0)))
HERO_PREDICATE2(LogicalXor, "logical_xor", (a != T(0)) != (b != T(0)))
#undef HERO_PREDICATE2

struct LogicalNot : Predicate {
  static constexpr int arity = 1;
  static constexpr auto name = "logical_not";
  template <class T>
  HERO_HD bool operator()(T x) const {
    return x == T(0);
  }
};
struct IsNan : Predicate {
  static constexpr int arity = 1;
  static constexpr auto name = "isnan";
  template <class T>
  HERO_HD bool operator()(T x) const {
    return is_nan(x);
  }
};
struct IsFinite : Predicate {
  static constexpr int arity = 1;
  static constexpr auto name = "isfinite";
  template <class T>
  HERO_HD bool operator()(T x) const {
    return wrapping_sub(x, x) == T(0);
  }
};

/// Every functor; a position in this list is a MapOp.
using MapList =
    TypeList<Exp, Exp2, Expm1, Log, Log2, Log1p, Sqrt, Rsqrt, Sin, Cos, Tan, Atan, Sinh, Cosh, Tanh,
             Sigmoid, LogSigmoid, Erf, Gelu, GeluTanh, Silu, Mish, Neg, Abs, Sign, Square,
             Reciprocal, Floor, Ceil, Round, Relu, Softsign, Hardswish, LeakyRelu, Elu, Softplus,
             Clamp, Add, Sub, Mul, Div, Pow, Atan2, Remainder, Maximum, Minimum, LogAddExp, Lerp,
             Addcmul, Affine, Where, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual,
             LogicalAnd, LogicalOr, LogicalXor, LogicalNot, IsNan, IsFinite, TanhBackward,
             SigmoidBackward, ReluBackward, SiluBackward, GeluBackward, GeluTanhBackward, Asin,
             Acos, Asinh, Acosh, Atanh, Log10, Erfc, Erfinv, Lgamma, Digamma, Rare, Hypot, Copysign,
             Xlogy, Trunc, Fmod, FloorDivide, TruncDivide, Gcd, BitwiseAnd, BitwiseOr, BitwiseXor,
             ShiftLeft, ShiftRight, LeakyReluBackward, EluBackward, SoftplusBackward,
             HardswishBackward, HardtanhBackward, WhereLess, WhereLessEqual, Cube>;

}  // namespace hero::core::kernels
