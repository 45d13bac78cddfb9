#include <algorithm>
#include <cmath>

#include <hero/core/elementwise.h>
#include <hero/core/map.h>
#include <hero/optim/clip.h>
#include <hero/optim/wide_sum.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;
using core::ReduceOp;

double power_sum(const Array& g, double p) {
  if (p == 1.0) return wide_reduce(ReduceOp::sum_abs, g);
  if (p == 2.0) return wide_reduce(ReduceOp::sum_square, g);
  const Array magnitude = core::map<k::Abs>(g);
  if (std::isinf(p)) return wide_reduce(ReduceOp::max, magnitude);
  return wide_reduce(ReduceOp::sum, core::map<k::Pow>(magnitude.to(kFloat64), Scalar(p)));
}

}  // namespace

double grad_power_sum(const std::vector<Tensor>& params, double p) {
  check(p > 0.0, "clip_grad_norm: norm must be positive: ", p);
  double total = 0.0;
  for (const Tensor& param : params) {
    const Tensor grad = param.grad();
    if (!grad.defined() || grad.numel() == 0) continue;
    const double part = power_sum(grad.array(), p);
    // NaN must not lose against a number.
    total = std::isinf(p) ? (part > total || part != part ? part : total) : total + part;
  }
  return total;
}

double norm_from_power_sum(double sum, double p) {
  if (std::isinf(p) || p == 1.0) return sum;
  return p == 2.0 ? std::sqrt(sum) : std::pow(sum, 1.0 / p);
}

void scale_grads(const std::vector<Tensor>& params, double total_norm, double max_norm) {
  const double factor = max_norm / (total_norm + 1e-6);
  if (factor >= 1.0) return;
  for (const Tensor& param : params) {
    const Tensor grad = param.grad();
    if (!grad.defined()) continue;
    core::map_into<k::Mul>(grad.array(), grad.array(), Scalar(factor));
  }
}

double clip_grad_norm(const std::vector<Tensor>& params, double max_norm,
                      const ClipOptions& options) {
  check(max_norm >= 0.0, "clip_grad_norm: max_norm must be 0 or more: ", max_norm);
  const double total = norm_from_power_sum(grad_power_sum(params, options.norm), options.norm);
  check(!options.error_if_nonfinite || std::isfinite(total),
        "clip_grad_norm: the norm of the gradients is ", total,
        "; look for the first loss that is not finite");
  scale_grads(params, total, max_norm);
  return total;
}

void clip_grad_value(const std::vector<Tensor>& params, double limit) {
  check(limit >= 0.0, "clip_grad_value: limit must be 0 or more: ", limit);
  for (const Tensor& param : params) {
    const Tensor grad = param.grad();
    if (!grad.defined()) continue;
    core::map_into<k::Clamp>(grad.array(), grad.array(), Scalar(-limit), Scalar(limit));
  }
}

}  // namespace hero::optim
