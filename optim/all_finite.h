#pragma once
#include <vector>

#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace hero::optim {

/// True when no element of any array is infinite or NaN; true on meta. All arrays of a GPU are a
/// few launches, and the host waits for one answer.
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
