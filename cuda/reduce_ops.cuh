#pragma once
// What reductions do with elements (`pre`), and how two results become one (`join`).
#include <limits>
#include <type_traits>

#include <hero/core/math.h>

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
    return static_cast<T>(a + b);
  }
};
struct SumAbs : SumOf {
  template <class T>
  __device__ static T pre(T x, T) {
    return static_cast<T>(x < T(0) ? -x : x);
  }
};
struct SumSquare : SumOf {
  template <class T>
  __device__ static T pre(T x, T) {
    return static_cast<T>(x * x);
  }
};
struct SumDeviation : SumOf {
  template <class T>
  __device__ static T pre(T x, T center) {
    return static_cast<T>((x - center) * (x - center));
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
    return static_cast<T>(a * b);
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
