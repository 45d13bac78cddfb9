// Covariances and correlations.

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

namespace {

void check_weights(const char* name, const Tensor& weights, int64_t observations) {
  check(weights.shape() == Shape{observations}, "cov: ", name, " ", weights.shape(), " do not fit ",
        observations, " observations");
  check(!core::has_values(weights.device()) || !any(weights.detach() < 0).item<bool>(),
        "cov: one of ", name, " is negative");
}

// One variable has its variance, a number, as the only element.
Tensor without_one(const Tensor& all) { return all.numel() == 1 ? reshape(all, {}) : all; }

// The weight of each observation, float; undefined where all count once.
Tensor weights_of(const CovOptions& options, DType dtype) {
  const Tensor &f = options.fweights, &a = options.aweights;
  if (!f.defined()) return a.defined() ? a.to(dtype) : a;
  return a.defined() ? f.to(dtype) * a.to(dtype) : f.to(dtype);
}

}  // namespace

Tensor cov(const Tensor& x, const CovOptions& options) {
  const detail::Named named("cov", {"x", x});
  detail::check_defined("cov", {{"x", x}});
  check(x.ndim() <= 2, "cov: x must be variables [V, N] or one [N]: got shape ", x.shape());
  const Tensor &f = options.fweights, &a = options.aweights;
  if (!is_floating(x.dtype())) return cov(x.to(kFloat32), options);
  if (a.defined() && promote(x.dtype(), a.dtype()) != x.dtype()) {
    return cov(x.to(promote(x.dtype(), a.dtype())), options);
  }
  if (detail::any_half(x)) {
    return detail::in_float32("cov", AutocastRule::fallthrough, {x, a}, [=](const auto& in) {
      CovOptions wide = options;
      wide.aweights = in[1];
      return cov(in[0], wide);
    });
  }
  const Tensor rows = x.ndim() == 2 ? x : reshape(x, {1, x.numel()});
  const int64_t observations = rows.size(1);
  if (f.defined()) {
    check_weights("fweights", f, observations);
    check(!is_floating(f.dtype()) && f.dtype() != kBool, "cov: fweights are ", f.dtype(),
          "; they count observations, and must be integers");
  }
  if (a.defined()) {
    check_weights("aweights", a, observations);
    check(is_floating(a.dtype()), "cov: aweights are ", a.dtype(), "; they must be floating");
  }
  const Tensor w = weights_of(options, x.dtype());
  Tensor centred, scaled, count;
  if (w.defined()) {
    const Tensor total = sum(w);
    centred = rows - unsqueeze(sum(rows * w, {1}) / total, 1);
    scaled = centred * w;
    count = a.defined() ? total - options.correction * sum(w * a.to(x.dtype())) / total
                        : total - options.correction;
  } else {
    centred = rows - mean(rows, {1}, true);
    scaled = centred;
    count = full({}, static_cast<double>(observations) - options.correction,
                 {.dtype = x.dtype(), .device = x.device()});
  }
  const Tensor all = matmul(scaled, centred.t()) / clamp_min(count, 0.0);
  return without_one(all);
}

Tensor corrcoef(const Tensor& x) {
  const detail::Named named("corrcoef", {"x", x});
  detail::check_defined("corrcoef", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("corrcoef", AutocastRule::fallthrough, {x},
                              [](const auto& in) { return corrcoef(in[0]); });
  }
  const Tensor all = cov(x);
  if (all.ndim() == 0) return all / all;
  const Tensor deviation = sqrt(diagonal(all));
  const Tensor by_rows = all / unsqueeze(deviation, 1);
  return clamp(by_rows / unsqueeze(deviation, 0), -1.0, 1.0);
}

}  // namespace hero
