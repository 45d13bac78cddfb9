#pragma once
#include <hero/core/map.h>
#include <hero/core/reductions.h>

namespace hero::optim {

/// True when no element is infinite or NaN; true on meta.
inline bool all_finite(const Array& x) {
  if (x.device().type == DeviceType::meta) return true;
  const Array finite = core::map<core::kernels::IsFinite>(x);
  return core::reduce(core::ReduceOp::all, finite).item<bool>();
}

}  // namespace hero::optim
