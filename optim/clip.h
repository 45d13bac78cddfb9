#pragma once
// Limiting gradients between backward() and step().
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::optim {

struct ClipOptions {
  double norm = 2.0;  ///< p of the norm; infinity: the largest magnitude
  bool error_if_nonfinite =
      false;  ///< an Error, before anything changes, when the norm is not finite
};

/// Scales all gradients together so that their norm, taken over every element of every gradient, is
/// at most max_norm: by max_norm / (norm + 1e-6) where that is below 1. Returns the norm before.
/// Pascanu, Mikolov and Bengio, arXiv 1211.5063.
double clip_grad_norm(const std::vector<Tensor>& params, double max_norm,
                      const ClipOptions& options = {});

/// Limits every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& params, double limit);

/// \name The parts of clip_grad_norm, for gradients that lie in pieces on several ranks
/// \{
/// Sum of |g|^p over the gradients of `params` in their order, in float64, or the largest |g| for
/// infinite p.
double grad_power_sum(const std::vector<Tensor>& params, double p = 2.0);
/// The norm that belongs to such a sum.
double norm_from_power_sum(double sum, double p = 2.0);
/// Multiplies the gradients as clip_grad_norm does for that norm.
void scale_grads(const std::vector<Tensor>& params, double total_norm, double max_norm);
/// \}

}  // namespace hero::optim
