// Power-average pooling, as means of powers.
#include <cmath>

#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/pool/pool.h>

namespace hero {

namespace {

// The norm of each window of `count` elements from the means that average(x^p) gives. Where the
// sum is 0, the root has no derivative; it counts as 0 there.
template <class Average>
Tensor power_pooled(const char* op, const Tensor& x, double p, double count, Average average) {
  check(p > 0.0 && std::isfinite(p), op, ": norm_type must be positive and finite: ", p);
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  if (detail::any_half(x)) {
    return detail::in_float32(op, AutocastRule::fallthrough, {x}, [=](const auto& in) {
      return power_pooled(op, in[0], p, count, average);
    });
  }
  // float64 holds the powers of float32 that float32 does not, for exponents up to 8.
  if (x.dtype() == kFloat32)
    return power_pooled(op, x.to(kFloat64), p, count, average).to(kFloat32);
  const Tensor means = average(pow(x, p));
  const Tensor some = means != 0;
  return where(some, pow(where(some, means, 1) * count, 1.0 / p), 0);
}

}  // namespace

Tensor lp_pool1d(const Tensor& x, double norm_type, int64_t kernel_size,
                 const LpPool1dOptions& options) {
  const detail::Named named("lp_pool1d", {"x", x});
  return power_pooled(
      "lp_pool1d", x, norm_type, static_cast<double>(kernel_size), [=](const Tensor& powers) {
        return avg_pool1d(powers, kernel_size,
                          {.stride = options.stride, .ceil_mode = options.ceil_mode});
      });
}
Tensor lp_pool2d(const Tensor& x, double norm_type, Pair kernel_size,
                 const LpPool2dOptions& options) {
  const detail::Named named("lp_pool2d", {"x", x});
  const double count = static_cast<double>(kernel_size[0]) * static_cast<double>(kernel_size[1]);
  return power_pooled("lp_pool2d", x, norm_type, count, [=](const Tensor& powers) {
    return avg_pool2d(powers, kernel_size,
                      {.stride = options.stride, .ceil_mode = options.ceil_mode});
  });
}
Tensor lp_pool3d(const Tensor& x, double norm_type, Triple kernel_size,
                 const LpPool3dOptions& options) {
  const detail::Named named("lp_pool3d", {"x", x});
  double count = 1.0;
  for (const int64_t each : kernel_size) count *= static_cast<double>(each);
  return power_pooled("lp_pool3d", x, norm_type, count, [=](const Tensor& powers) {
    return avg_pool3d(powers, kernel_size,
                      {.stride = options.stride, .ceil_mode = options.ceil_mode});
  });
}

}  // namespace hero
