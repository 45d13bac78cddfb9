#pragma once
// This header says how the contributions of several ranks become one, element by element. The sums
// of the host and those of a device share its arithmetic, so that they give the same bits.
#include <cstddef>
#include <cstdint>

#include <hero/core/dtype.h>
#include <hero/core/kernels/config.h>
#include <hero/core/kernels/half.h>
#include <hero/core/kernels/wrapping.h>

namespace hero::core {

/// dist::ReduceOp, which says what each of them means, for core and cuda.
enum class Combine : uint8_t { sum, product, min, max, mean };

/// How arrays of several ranks become one.
struct Fold {
  Combine op = Combine::sum;
  bool tree = false;        ///< in the order of dist::Order::tree; else from the first to the last
  DType dtype = kFloat32;   ///< of what is combined
  DType result = kFloat32;  ///< of what it becomes: `dtype`, or float32 where that is a half
  double divisor = 0.0;     ///< of a mean; 0: the number of arrays
};

/// What the sum of so many arrays is divided by.
inline double divisor_of(const Fold& fold, size_t arrays) {
  return fold.divisor > 0.0 ? fold.divisor : static_cast<double>(arrays);
}

/// The functors and types of Combine.
namespace combining {

/// What a dtype is added up in: integers unsigned, so that they wrap by definition.
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
/// Whether the order of combinations of floats shows in the bits.
template <class T>
inline constexpr bool kRounds = std::is_same_v<T, Add> || std::is_same_v<T, Multiply>;

// A NaN on either side stays: no comparison with it is true.
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

// What is done to the last sum.
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
