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
/// at most max_norm: by max_norm / (norm + 1e-6) where that is below 1. Returns the norm before,
/// grad_norm(). Pascanu, Mikolov and Bengio, arXiv 1211.5063.
double clip_grad_norm(const std::vector<Tensor>& params, double max_norm,
                      const ClipOptions& options = {});

/// Limits every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& params, double limit);

/// \name The parts of clip_grad_norm
/// \{
/// (sum of |g|^p)^(1/p) over the gradients of `params`, or the largest |g| for infinite p. The sum
/// is exact (for other p than 1 and 2 the powers are doubles), so the norm has the same bits for
/// any order and number of threads, and whether parameters are whole or shards: where they are
/// shards (<hero/autograd/partition.h>) this is a collective of their owners, and gives the norm of
/// the whole to each.
double grad_norm(const std::vector<Tensor>& params, double p = 2.0);
/// Multiplies the gradients as clip_grad_norm does for that norm.
void clip_grads_with_norm(const std::vector<Tensor>& params, double max_norm, double total_norm);
/// \}

}  // namespace hero::optim
