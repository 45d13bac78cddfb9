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
/// grad_norm(), whose value item() gives. Pascanu, Mikolov and Bengio, arXiv 1211.5063.
///
/// On a GPU the norm stays there and the gradients are read and scaled in a few launches for any
/// number of them, shards too; the host waits only with error_if_nonfinite.
/// \snippet test_examples_optim.cpp clip_grad_norm
Tensor clip_grad_norm(const std::vector<Tensor>& params, double max_norm,
                      const ClipOptions& options = {});

/// Limits every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& params, double limit);

/// \name The parts of clip_grad_norm
/// \{
/// (sum of |g|^p)^(1/p) over the gradients of `params`, or the largest |g| for infinite p: float64
/// of shape [] on the device of the first gradient. The sum is exact (for other p than 1 and 2 the
/// powers are doubles), so the norm has the same bits for any order and number of threads, and
/// whether parameters are whole or shards: where they are shards (<hero/autograd/partition.h>) this
/// is a collective of their owners on that device, and gives the norm of the whole to each.
/// For p of 1 and 2 all gradients of a GPU are a few launches, for others a few a gradient.
Tensor grad_norm(const std::vector<Tensor>& params, double p = 2.0);
/// Multiplies the gradients as clip_grad_norm does for that norm, a tensor of one element.
void clip_grads_with_norm(const std::vector<Tensor>& params, double max_norm,
                          const Tensor& total_norm);
/// \}

}  // namespace hero::optim
