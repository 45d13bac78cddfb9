#pragma once
#include <vector>

#include <hero/core/functions/exact_sum.h>

namespace hero::optim {

/// True if no element of any array is infinite or NaN; always true for arrays on meta. It takes no
/// memory. All arrays on a GPU take a few launches together, and the host waits once, for the
/// answer.
inline bool all_finite(const std::vector<Array>& xs) {
  core::ExactSum sum;  // squares of finite numbers do not overflow it
  sum.add_squares(xs);
  return sum.finite();
}

}  // namespace hero::optim
