// Counts of values in bins.
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

namespace {

constexpr auto kName = "histogram";

Histogram counted(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  check(!options.weight.defined() || options.weight.shape() == x.shape(), kName,
        ": weights of shape ", options.weight.defined() ? options.weight.shape() : Shape(),
        " for x of shape ", x.shape());
  const int64_t bins = edges.size(0) - 1;
  const Tensor flat = ravel(x.detach());
  const Tensor at = searchsorted(edges, flat, {.right = true}) - 1;
  const Tensor inside = logical_and(flat >= select(edges, 0, 0), flat <= select(edges, 0, bins));
  // In int64 or double, where counts of one more stay exact.
  const DType dtype = options.weight.defined() ? kFloat64 : kInt64;
  const Tensor amount = options.weight.defined()
                            ? where(inside, ravel(options.weight.detach()).to(dtype), 0)
                            : inside.to(dtype);
  Tensor total = index_add(zeros({bins}, {.dtype = dtype, .device = x.device()}), 0,
                           clamp(at, 0, bins - 1), amount);
  if (options.density) {
    const Tensor wide = edges.to(kFloat64);
    total = total.to(kFloat64) / (sum(total).to(kFloat64) * diff(wide));
  }
  return {total.to(x.dtype()), edges};
}

}  // namespace

Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options) {
  const detail::Named named(kName, {"x", x});
  detail::check_defined(kName, {{"x", x}});
  const NoGrad no_grad;
  check(is_floating(x.dtype()), kName, ": needs floats: got ", x.dtype());
  check(bins > 0, kName, ": ", bins, " bins; there must be one at least");
  auto [low, high] = options.range.value_or(std::pair(0.0, 1.0));
  if (!options.range && x.numel() > 0 && core::has_values(x.device())) {
    low = min(x.detach()).item();
    high = max(x.detach()).item();
  }
  check(std::isfinite(low) && std::isfinite(high) && low <= high, kName, ": no range from ", low,
        " to ", high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return counted(x, linspace(low, high, bins + 1, {.dtype = x.dtype(), .device = x.device()}),
                 options);
}

Histogram histogram(const Tensor& x, const Tensor& bins, const HistogramOptions& options) {
  const detail::Named named(kName, {"x", x}, {"bins", bins});
  detail::check_defined(kName, {{"x", x}, {"bins", bins}});
  const NoGrad no_grad;
  check(is_floating(x.dtype()), kName, ": needs floats: got ", x.dtype());
  check(bins.ndim() == 1 && bins.size(0) > 1, kName,
        ": edges of bins are a vector of two or more: "
        "got shape ",
        bins.shape());
  check(bins.dtype() == x.dtype(), kName, ": edges are ", bins.dtype(), ", x is ", x.dtype(),
        "; convert with to()");
  check(!options.range, kName, ": a range is for a number of bins; these have edges");
  return counted(x, bins.detach(), options);
}

}  // namespace hero
