#pragma once
// Functions of elements that are computed by the host, in double, for arrays of any device.
#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/tensor.h>
#include <hero/core/thread_pool.h>

namespace hero::distributions {

/// The values as contiguous doubles of the host.
inline Array host_doubles(const Array& x) { return x.to(kCpu).to(kFloat64).contiguous(); }

/// f(i, x[i], ..) of each element i of arrays of one shape, in float64 on the device of the first.
template <class F, class First, class... More>
Array each_element(const F& f, const First& first, const More&... more) {
  if (first.device().type == DeviceType::meta) {
    return Array::empty(first.shape(), kFloat64, first.device());
  }
  const Array out = Array::empty(first.shape(), kFloat64);
  double* to = out.data<double>();
  const auto fill = [&](const auto&... from) {
    parallel_for(out.numel(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = f(i, from.template data<double>()[i]...);
    });
  };
  fill(host_doubles(first), host_doubles(more)...);
  return out.to(first.device());
}

/// Throws an Error where the backward pass itself is recorded.
inline void once_only(const char* what) {
  check(!grad_enabled(), what,
        ": the gradient with respect to a gamma distribution's shape has no derivative; run "
        "backward() without create_graph");
}

}  // namespace hero::distributions
