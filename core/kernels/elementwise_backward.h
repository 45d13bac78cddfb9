#pragma once
// Derivatives of activations times the gradient g, in one pass, with the same roundings as the
// operations in autograd/ops/elementwise/elementwise.cpp that define them; and the selections of
// formulas (core/functions/fused_expression.h).
#include <numbers>

#include <hero/core/kernels/elementwise_base.h>

namespace hero::core::kernels {

// The base of these functors: two inputs, the gradient first.
struct Backward : OnFloats {
  static constexpr int arity = 2;
};

struct TanhBackward : Backward {
  static constexpr auto name = "tanh_backward";
  template <class T>
  HERO_HD T operator()(T g, T y) const {
    return g * (T(1) - y * y);
  }
};
struct SigmoidBackward : Backward {
  static constexpr auto name = "sigmoid_backward";
  template <class T>
  HERO_HD T operator()(T g, T y) const {
    return g * (y * (T(1) - y));
  }
};
/// The second input is the output of relu: g where it is positive or NaN.
struct ReluBackward : Backward {
  static constexpr auto name = "relu_backward";
  template <class T>
  HERO_HD T operator()(T g, T y) const {
    return math::detail::either(y <= T(0), T(0), g);
  }
};
struct SiluBackward : Backward {
  static constexpr auto name = "silu_backward";
  template <class T>
  HERO_HD T operator()(T g, T x) const {
    const T s = math::sigmoid(x);
    return g * (s * (x * (T(1) - s) + T(1)));
  }
};
struct GeluBackward : Backward {
  static constexpr auto name = "gelu_backward";
  template <class T>
  HERO_HD T operator()(T g, T x) const {
    constexpr auto kInvRootTwoPi = static_cast<T>(0.3989422804014326779);
    const T cdf = math::erf(x * static_cast<T>(std::numbers::sqrt2 / 2.0)) * T(0.5) + T(0.5);
    const T density = math::exp(x * x * T(-0.5)) * kInvRootTwoPi;
    return g * (cdf + x * density);
  }
};
struct GeluTanhBackward : Backward {
  static constexpr auto name = "gelu_tanh_backward";
  template <class T>
  HERO_HD T operator()(T g, T x) const {
    constexpr double kA = 0.7978845608028653559, kB = 0.044715;  // sqrt(2 / pi)
    const T x2 = x * x;
    const T s = math::sigmoid(x * (x2 * static_cast<T>(kB) + T(1)) * static_cast<T>(2.0 * kA));
    const T slope = (x2 * static_cast<T>(3.0 * kB) + T(1)) * static_cast<T>(2.0 * kA);
    return g * (s * (x * (T(1) - s) * slope + T(1)));
  }
};

/// g, x, slope
struct LeakyReluBackward : OnFloats {
  static constexpr int arity = 3;
  static constexpr auto name = "leaky_relu_backward";
  template <class T>
  HERO_HD T operator()(T g, T x, T slope) const {
    return math::detail::either(x > T(0), g, g * slope);
  }
};
/// g, x, alpha
struct EluBackward : OnFloats {
  static constexpr int arity = 3;
  static constexpr auto name = "elu_backward";
  template <class T>
  HERO_HD T operator()(T g, T x, T alpha) const {
    const T below = math::exp(math::detail::either(x < T(0), x, T(0))) * alpha;
    return math::detail::either(x <= T(0), g * below, g);
  }
};
/// g, x, beta, threshold
struct SoftplusBackward : OnFloats {
  static constexpr int arity = 4;
  static constexpr auto name = "softplus_backward";
  template <class T>
  HERO_HD T operator()(T g, T x, T beta, T threshold) const {
    const T scaled = x * beta;
    const T below = math::sigmoid(math::detail::either(scaled >= threshold, threshold, scaled));
    return math::detail::either(scaled > threshold, g, g * below);
  }
};
struct HardswishBackward : Backward {
  static constexpr auto name = "hardswish_backward";
  template <class T>
  HERO_HD T operator()(T g, T x) const {
    const T slope = math::detail::either(x < T(3), x / T(3) + T(0.5), T(1));
    return g * math::detail::either(x <= T(-3), T(0), slope);
  }
};
/// g, x, low, high: g where x is strictly between the bounds or NaN, else 0.
struct HardtanhBackward : OnFloats {
  static constexpr int arity = 4;
  static constexpr auto name = "hardtanh_backward";
  template <class T>
  HERO_HD T operator()(T g, T x, T low, T high) const {
    return math::detail::either((x <= low) | (x >= high), T(0), g);
  }
};
/// a, b, x, y: x where a < b, else y.
struct WhereLess : OnFloats {
  static constexpr int arity = 4;
  static constexpr auto name = "where";
  template <class T>
  HERO_HD T operator()(T a, T b, T x, T y) const {
    return math::detail::either(a < b, x, y);
  }
};
/// a, b, x, y: x where a <= b, else y.
struct WhereLessEqual : OnFloats {
  static constexpr int arity = 4;
  static constexpr auto name = "where";
  template <class T>
  HERO_HD T operator()(T a, T b, T x, T y) const {
    return math::detail::either(a <= b, x, y);
  }
};

}  // namespace hero::core::kernels
