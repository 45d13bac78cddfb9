#include <hero/core/cpu/index/grid_sample.h>
#include <hero/core/device/asking_backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/functions/grid_sample.h>
#include <hero/core/profile/work.h>
#include <hero/core/profile/work_of.h>

namespace hero::core {

namespace {

cpu::Sampled sampled_of(const GridSampling& how, const Shape& x, const Array& grid) {
  cpu::Sampled sampled{how, x[0], x[1], 1, {1, 1, 1}, x.size() - 2};
  for (int i = 0; i < sampled.dims; ++i) {
    sampled.size[i] = x[2 + i];
    sampled.points *= grid.size(1 + i);
  }
  return sampled;
}

// Charges two flops for each tap, and asks for the arrays. False where nothing is computed.
bool begins(const cpu::Sampled& sampled, const Array& a, const Array& b, const Array& out) {
  int64_t taps = 2;
  for (int i = 0; i < sampled.dims; ++i) taps *= sampled.how.taps;
  if (WorkMeter* const meter = current_work_meter(); meter != nullptr && out.numel() > 0) {
    meter->charge({.kind = WorkKind::window,
                   .dtype = out.dtype(),
                   .flops = taps * sampled.images * sampled.channels * sampled.points,
                   .bytes = stored_bytes(a) + stored_bytes(b) + out.nbytes()});
  }
  ask_for_all(a, b, out);
  return out.device() == kCpu && out.numel() > 0;
}

template <class Body>
void with_type(const Array& x, Body&& body) {
  x.dtype() == kFloat64 ? body(TypeTag<double>{}) : body(TypeTag<float>{});
}

}  // namespace

bool samples_on_host(const Array& x) {
  // A place is an int32, and each size a float.
  constexpr int64_t kLargest = int64_t{1} << 24;
  int64_t plane = 1;
  for (int i = 2; i < x.ndim(); ++i) {
    if (x.size(i) > kLargest) return false;
    plane *= x.size(i);
    if (plane >= int64_t{1} << 31) return false;
  }
  return kernels_of(x.device()) == DeviceType::cpu &&
         (x.dtype() == kFloat32 || x.dtype() == kFloat64);
}

Array grid_sample(const GridSampling& how, const Array& x_in, const Array& grid_in) {
  const Array x = x_in.contiguous(), grid = grid_in.contiguous();
  Shape shape = grid.shape();
  shape.pop_back();
  shape.insert(1, x.size(1));
  const Array out = Array::empty(shape, x.dtype(), x.device());
  const cpu::Sampled sampled = sampled_of(how, x.shape(), grid);
  if (!begins(sampled, x, grid, out)) return out;
  with_type(x, [&]<class T>(TypeTag<T>) {
    cpu::grid_sample(sampled, x.data<T>(), grid.data<T>(), out.data<T>());
  });
  return out;
}

Array grid_sample_back_x(const GridSampling& how, const Array& g_in, const Shape& x,
                         const Array& grid_in) {
  const Array g = g_in.contiguous(), grid = grid_in.contiguous();
  const Array out = Array::empty(x, g.dtype(), g.device());
  const cpu::Sampled sampled = sampled_of(how, x, grid);
  if (!begins(sampled, g, grid, out)) return out;
  with_type(g, [&]<class T>(TypeTag<T>) {
    cpu::grid_sample_back_x(sampled, g.data<T>(), grid.data<T>(), out.data<T>());
  });
  return out;
}

Array grid_sample_back_grid(const GridSampling& how, const Array& g_in, const Array& x_in,
                            const Array& grid_in) {
  const Array g = g_in.contiguous(), x = x_in.contiguous(), grid = grid_in.contiguous();
  const Array out = grid.empty_like();
  const cpu::Sampled sampled = sampled_of(how, x.shape(), grid);
  ask_for(x);
  if (!begins(sampled, g, grid, out)) return out;
  with_type(g, [&]<class T>(TypeTag<T>) {
    cpu::grid_sample_back_grid(sampled, g.data<T>(), x.data<T>(), grid.data<T>(), out.data<T>());
  });
  return out;
}

}  // namespace hero::core
