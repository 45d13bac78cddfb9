#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/grid_sample.h>

namespace hero::core {

bool samples_on_host(const Array& x) {
  // A place is an int32, and each size a float.
  constexpr int64_t kLargest = int64_t{1} << 24;
  int64_t plane = 1;
  for (int i = 2; i < x.ndim(); ++i) {
    if (x.size(i) > kLargest) return false;
    plane *= x.size(i);
    if (plane >= int64_t{1} << 31) return false;
  }
  return kernel_traits(x.device()).has_host_calls &&
         (x.dtype() == kFloat32 || x.dtype() == kFloat64);
}

Array grid_sample(const GridSampling& how, const Array& x, const Array& grid) {
  Shape shape = grid.shape();
  shape.pop_back();
  shape.insert(1, x.size(1));
  const Array out = Array::empty(shape, x.dtype(), x.device());
  backend(x.device()).run(call::GridSample{how, x.contiguous(), grid.contiguous(), out});
  return out;
}

Array grid_sample_back_x(const GridSampling& how, const Array& g, const Shape& x,
                         const Array& grid) {
  const Array out = Array::empty(x, g.dtype(), g.device());
  backend(g.device()).run(call::GridSampleBackX{how, g.contiguous(), grid.contiguous(), out});
  return out;
}

Array grid_sample_back_grid(const GridSampling& how, const Array& g, const Array& x,
                            const Array& grid_in) {
  const Array grid = grid_in.contiguous();
  const Array out = grid.empty_like();
  backend(g.device()).run(call::GridSampleBackGrid{how, g.contiguous(), x.contiguous(), grid, out});
  return out;
}

}  // namespace hero::core
