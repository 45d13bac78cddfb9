#pragma once
#include <vector>

#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace hero::optim {

/// True if no element of any array is infinite or NaN; always true for arrays on meta. All arrays
/// on a GPU take a few launches together, and the host waits once, for the answer.
inline bool all_finite(const std::vector<Array>& xs) {
  std::vector<Array> elsewhere;
  for (const Array& x : xs) {
    if (x.device().type != DeviceType::cpu) {
      elsewhere.push_back(x);
      continue;
    }
    const Array finite = core::map<core::kernels::IsFinite>(x);
    if (!core::reduce(core::ReduceKind::all, finite).item<bool>()) return false;
  }
  core::ExactSum sum;
  sum.add_magnitudes(elsewhere);
  return sum.finite();
}

}  // namespace hero::optim
