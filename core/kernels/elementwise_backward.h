#pragma once
// Derivatives of activations times the gradient g, in one pass: the same roundings as the
// operations in autograd/ops/math/elementwise.cpp that define them.
#include <numbers>

#include <hero/core/kernels/elementwise_base.h>

namespace hero::core::kernels {

// What these functors share: two inputs, the gradient first.
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
/// By the output: where it is positive, or NaN.
struct ReluBackward : Backward {
  static constexpr auto name = "relu_backward";
  template <class T>
  HERO_HD T operator()(T g, T y) const {
    return y <= T(0) ? T(0) : g;
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

}  // namespace hero::core::kernels
