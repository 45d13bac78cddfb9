#pragma once
// The functions of reductions: of each element (`pre`), and of two results (`join`).
#include <limits>
#include <type_traits>

#include <hero/core/kernels/math.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::cuda {

struct SumOf {
  using Join = SumOf;
  template <class T>
  static constexpr bool rounds = std::is_floating_point_v<T>;
  template <class T>
  __host__ __device__ static T none() {
    return T(0);
  }
  template <class T>
  __device__ static T pre(T x, T) {
    return x;
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return core::wrapping_add(a, b);
  }
};
struct SumAbs : SumOf {
  template <class T>
  __device__ static T pre(T x, T) {
    return x < T(0) ? core::wrapping_neg(x) : x;
  }
};
struct SumSquare : SumOf {
  template <class T>
  __device__ static T pre(T x, T) {
    return core::wrapping_mul(x, x);
  }
};
struct SumDeviation : SumOf {
  template <class T>
  __device__ static T pre(T x, T center) {
    const T deviation = core::wrapping_sub(x, center);
    return core::wrapping_mul(deviation, deviation);
  }
};
struct SumExp : SumOf {
  template <class T>
  __device__ static T pre(T x, T center) {
    return math::exp(x - center);
  }
};
struct Product : SumOf {
  using Join = Product;
  template <class T>
  __host__ __device__ static T none() {
    return T(1);
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return core::wrapping_mul(a, b);
  }
};
struct Largest : SumOf {
  using Join = Largest;
  template <class T>
  static constexpr bool rounds = false;
  template <class T>
  __host__ __device__ static T none() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Smallest : Largest {
  using Join = Smallest;
  template <class T>
  __host__ __device__ static T none() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
// Truth values are bytes 0 and 1.
struct Any : Largest {
  using Join = Any;
  template <class T>
  __host__ __device__ static T none() {
    return T(0);
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return a | b;
  }
};
struct All : Largest {
  using Join = All;
  template <class T>
  __host__ __device__ static T none() {
    return T(1);
  }
  template <class T>
  __device__ static T join(T a, T b) {
    return a & b;
  }
};

}  // namespace hero::cuda
