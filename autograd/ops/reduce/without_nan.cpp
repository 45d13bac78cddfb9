// Reductions with a dtype argument, reductions that ignore NaN, and pairs of reductions.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>

namespace hero {

// Sums of small integers are int64: converted back, they wrap as if added up in theirs.
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const detail::Named named("sum", {"x", x});
  detail::check_defined("sum", {{"x", x}});
  return sum(x.to(dtype), dims, keepdim).to(dtype);
}
Tensor sum(const Tensor& x, DType dtype) {
  const detail::Named named("sum", {"x", x});
  return sum(x.to(dtype)).to(dtype);
}
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const detail::Named named("mean", {"x", x});
  detail::check_defined("mean", {{"x", x}});
  return mean(x.to(dtype), dims, keepdim);
}
Tensor mean(const Tensor& x, DType dtype) {
  const detail::Named named("mean", {"x", x});
  return mean(x.to(dtype));
}
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const detail::Named named("prod", {"x", x});
  detail::check_defined("prod", {{"x", x}});
  return prod(x.to(dtype), dims, keepdim).to(dtype);
}
Tensor prod(const Tensor& x, DType dtype) {
  const detail::Named named("prod", {"x", x});
  return prod(x.to(dtype)).to(dtype);
}
Tensor cumsum(const Tensor& x, int64_t dim, DType dtype) {
  detail::check_defined("cumsum", {{"x", x}});
  return cumsum(x.to(dtype), dim).to(dtype);
}
Tensor cumprod(const Tensor& x, int64_t dim, DType dtype) {
  detail::check_defined("cumprod", {{"x", x}});
  return cumprod(x.to(dtype), dim).to(dtype);
}

Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("nansum", {"x", x});
  detail::check_defined("nansum", {{"x", x}});
  return is_floating(x.dtype()) ? sum(masked_fill(x, isnan(x), 0), dims, keepdim)
                                : sum(x, dims, keepdim);
}

Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim) {
  const detail::Named named("nanmean", {"x", x});
  detail::check_defined("nanmean", {{"x", x}});
  check(is_floating(x.dtype()), "nanmean: array is ", x.dtype(),
        "; convert to a floating dtype first");
  if (detail::any_half(x)) {
    return detail::in_float32("nanmean", AutocastRule::fallthrough, {x},
                              [=](const auto& in) { return nanmean(in[0], dims, keepdim); });
  }
  const Tensor count = sum(logical_not(isnan(x)), dims, keepdim);
  return nansum(x, dims, keepdim) / count.to(x.dtype());
}

Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const detail::Named named("nansum", {"x", x});
  detail::check_defined("nansum", {{"x", x}});
  return nansum(x.to(dtype), dims, keepdim).to(dtype);
}
Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim, DType dtype) {
  const detail::Named named("nanmean", {"x", x});
  detail::check_defined("nanmean", {{"x", x}});
  return nanmean(x.to(dtype), dims, keepdim);
}
Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim, DType dtype) {
  detail::check_defined("norm", {{"x", x}});
  return norm(x.to(dtype), p, dims, keepdim);
}

Tensor count_nonzero(const Tensor& x, const Dims& dims) {
  const detail::Named named("count_nonzero", {"x", x});
  detail::check_defined("count_nonzero", {{"x", x}});
  return sum(x != 0, dims);
}

MinMax aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  const detail::Named named("aminmax", {"x", x});
  const Dims dims = dim ? Dims{*dim} : Dims{};
  return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
}

VarMean var_mean(const Tensor& x, const VarOptions& options) {
  const detail::Named named("var_mean", {"x", x});
  return {var(x, options), mean(x, options.dims, options.keepdim)};
}

// torch.dist: as a function its name would be that of a namespace.
Tensor Tensor::dist(const Tensor& other, double p) const {
  if (detail::any_half(*this, other)) {
    return detail::in_float32("dist", AutocastRule::fallthrough, {*this, other},
                              [p](const auto& in) { return hero::norm(in[0] - in[1], p); });
  }
  return hero::norm(*this - other, p);
}

}  // namespace hero
