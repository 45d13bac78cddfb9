#include <algorithm>
#include <bit>
#include <cmath>

#include <hero/core/elementwise.h>
#include <hero/core/map.h>
#include <hero/core/reductions.h>
#include <hero/optim/clip.h>
#include <hero/optim/exact_sum.h>
#include <hero/optim/owners.h>

namespace hero::optim {

namespace {

namespace k = core::kernels;

void add_powers(ExactSum& sum, const Array& g, double p) {
  if (p == 1.0) return sum.add_magnitudes(g);
  if (p == 2.0) return sum.add_squares(g);
  sum.add_magnitudes(core::map<k::Pow>(core::map<k::Abs>(g.to(kFloat64)), Scalar(p)));
}

// Calls use(gradient) for all parameters of these owners that have one with elements.
template <class Use>
void each_gradient(const std::vector<Tensor>& params, const Owners* owners, const Use& use) {
  for (const Tensor& param : params) {
    if (owners_of(param) != owners) continue;
    const Tensor grad = param.grad();
    if (grad.defined() && grad.numel() > 0) use(grad.array());
  }
}

ExactSum power_sum(const std::vector<Tensor>& params, double p) {
  ExactSum total;
  for (Owners* owners : all_owners(params)) {
    ExactSum sum;
    each_gradient(params, owners, [&](const Array& g) { add_powers(sum, g, p); });
    if (owners) add_up(*owners, {&sum, 1});
    total.add(sum);
  }
  return total;
}

// The bits of doubles that are 0 or more are ordered like the doubles, and NaN is above infinity.
double largest_magnitude(const std::vector<Tensor>& params) {
  int64_t total = 0;
  for (Owners* owners : all_owners(params)) {
    int64_t largest = 0;
    each_gradient(params, owners, [&](const Array& g) {
      if (g.device().type == DeviceType::meta) return;
      const double found = core::reduce(core::ReduceOp::max, core::map<k::Abs>(g)).item();
      largest = std::max(largest, std::bit_cast<int64_t>(std::fabs(found)));
    });
    if (owners) owners->largest({&largest, 1});
    total = std::max(total, largest);
  }
  return std::bit_cast<double>(total);
}

}  // namespace

double grad_norm(const std::vector<Tensor>& params, double p) {
  check(p > 0.0, "clip_grad_norm: norm must be positive: ", p);
  if (std::isinf(p)) return largest_magnitude(params);
  const ExactSum sum = power_sum(params, p);
  if (p == 2.0) return sum.root();
  return p == 1.0 ? sum.value() : std::pow(sum.value(), 1.0 / p);
}

void clip_grads_with_norm(const std::vector<Tensor>& params, double max_norm, double total_norm) {
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
  const double total = grad_norm(params, options.norm);
  check(!options.error_if_nonfinite || std::isfinite(total),
        "clip_grad_norm: the norm of the gradients is ", total,
        "; look for the first loss that is not finite");
  clip_grads_with_norm(params, max_norm, total);
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
