#pragma once
// How arrays of several ranks are reduced to one, element by element. The host and devices share
// this arithmetic, so that their results are bitwise identical.
#include <cstddef>
#include <cstdint>

#include <hero/core/dtype.h>
#include <hero/core/kernels/config.h>
#include <hero/core/kernels/half.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::core {

/// The values of dist::ReduceOp, which describes them, for core and cuda.
enum class Combine : uint8_t { sum, product, min, max, mean };

/// How arrays of several ranks are reduced to one.
struct Fold {
  Combine op = Combine::sum;
  bool tree = false;       ///< true: in the order of dist::Order::tree; false: from first to last
  DType dtype = kFloat32;  ///< the dtype of the arrays
  /// The dtype of the result: `dtype`; float32 if that is a half; a half for float32 added up.
  DType result = kFloat32;
  double divisor = 0.0;  ///< the divisor of a mean; 0: the number of arrays
};

/// The divisor of the sum of this many arrays.
inline double divisor_of(const Fold& fold, size_t arrays) {
  return fold.divisor > 0.0 ? fold.divisor : static_cast<double>(arrays);
}

/// The functors and types of Combine.
namespace combining {

/// The type in which elements are added up: unsigned for integers, whose overflow then wraps by
/// definition.
template <class T>
using SumType = Wrapping<ComputeOf<T>>;

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
/// Whether the bits of a result of floats depend on the order of the operands.
template <class T>
inline constexpr bool kRounds = std::is_same_v<T, Add> || std::is_same_v<T, Multiply>;

// A NaN on either side is kept: no comparison with it is true.
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

// The last step on a sum.
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
