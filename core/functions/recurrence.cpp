#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/recurrence.h>

namespace hero::core {

namespace {

void in_rounds(const Array& a, const Array& b, int dim, Direction direction, const Array& out) {
  Backend& device = backend(a.device());
  device.run(call::Copy{b, out});
  const Array factors = a.clone();
  const int64_t n = a.shape()[dim];
  // What reaches each element from `reach` places away: first the elements there, times factors.
  for (int64_t reach = 1; reach < n; reach *= 2) {
    const bool forwards = direction == Direction::forward;
    const auto own = [&](const Array& x) {
      return forwards ? x.slice(dim, reach, n) : x.slice(dim, 0, n - reach);
    };
    const auto before = [&](const Array& x) {
      return forwards ? x.slice(dim, 0, n - reach) : x.slice(dim, reach, n);
    };
    // factors[j] leads from j to the element `reach` places on.
    const Array more = map<kernels::Mul>(before(factors), before(out));
    const Array next = map<kernels::Mul>(before(factors), own(factors));
    map_into<kernels::Add>(own(out), own(out), more);
    device.run(call::Copy{next, before(factors)});
  }
}

}  // namespace

Array recurrence(const Array& a, const Array& b, int dim, Direction direction) {
  const Array out = b.empty_like();
  if (out.numel() == 0) return out;
  if (!kernel_traits(a.device()).has_host_calls) {
    in_rounds(a, b, dim, direction, out);
    return out;
  }
  backend(a.device()).run(call::Recurrence{a, b, dim, direction, out});
  return out;
}

}  // namespace hero::core
