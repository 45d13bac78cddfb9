#include <limits>

#include <hero/autograd/ops/elementwise/clamp.h>
#include <hero/core/error.h>
#include <hero/core/promotion.h>

namespace hero::detail {

Bounds clamp_bounds(const char* op, DType dtype, std::optional<Scalar> low,
                    std::optional<Scalar> high) {
  check(low || high, op, ": needs a lower or an upper bound");
  const DType result = promote(promote(dtype, low.value_or(false)), high.value_or(false));
  if (is_floating(result)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // A bound that the dtype does not hold and that everything crosses would make all infinite.
    const auto crossed = [&](const std::optional<Scalar>& bound, double sign) {
      return bound && bound->real() * sign > 0.0 && !fits(*bound, result);
    };
    check(!crossed(low, 1.0), op, ": the lower bound ", low.value_or(0), " is above all ", result);
    check(!crossed(high, -1.0), op, ": the upper bound ", high.value_or(0), " is below all ",
          result);
    return {low.value_or(-kInfinity), high.value_or(kInfinity)};
  }
  int64_t lowest = 0, highest = 1;  // of bool
  dispatch(result, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>) {
      lowest = std::numeric_limits<T>::lowest();
      highest = std::numeric_limits<T>::max();
    }
  });
  const int64_t from = low ? low->to<int64_t>() : lowest;
  const int64_t to = high ? high->to<int64_t>() : highest;
  check(from <= highest, op, ": the lower bound ", from, " is above all ", result);
  check(to >= lowest, op, ": the upper bound ", to, " is below all ", result);
  const int64_t least = std::max(from, lowest), most = std::min(to, highest);
  if (result == kBool) return {least != 0, most != 0};
  return {least, most};
}

}  // namespace hero::detail
