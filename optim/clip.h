#pragma once
// Limiting gradients between backward() and step().
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::optim {

/// Options of clip_grad_norm().
struct ClipOptions {
  double norm = 2.0;  ///< the p of the p-norm; infinity takes the largest magnitude
  /// True: a norm that is not finite is an Error, and nothing is changed.
  bool error_if_nonfinite = false;
};

/// Scales all gradients by one factor so that their norm, taken over every element of every
/// gradient together, is at most max_norm: the factor is min(1, max_norm / (norm + 1e-6)). Returns
/// the norm from before, as grad_norm() does; item() gives its value. Pascanu, Mikolov and Bengio,
/// arXiv 1211.5063.
///
/// If ranks share the parameters (DDP, ZeRO, FSDP) and give different limits or norms, their next
/// collective is an Error that lists them.
///
/// On a GPU the norm stays on the device, and any number of gradients, shards included, are read
/// and scaled in a few launches; the host waits only if error_if_nonfinite is set.
/// \snippet test_examples_optim.cpp clip_grad_norm
Tensor clip_grad_norm(const std::vector<Tensor>& params, double max_norm,
                      const ClipOptions& options = {});

/// Limits every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& params, double limit);

/// \name PyTorch's names of clip_grad_norm() and clip_grad_value()
/// \{
inline Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm,
                              const ClipOptions& options = {}) {
  return clip_grad_norm(params, max_norm, options);
}
inline void clip_grad_value_(const std::vector<Tensor>& params, double limit) {
  clip_grad_value(params, limit);
}
/// \}

/// \name The parts of clip_grad_norm
/// \{
/// Returns (sum of |g|^p)^(1/p) over the gradients of `params`, or the largest |g| if p is
/// infinite: a float64 tensor of shape [] on the device of the first gradient. The sum is exact (if
/// p is neither 1 nor 2, the powers are rounded to doubles first), so the norm has the same bits in
/// any order, on any number of threads, and for whole parameters as for shards. If parameters are
/// shards (<hero/autograd/sharding/partition.h>), this is a collective of their owners on that
/// device, and each of them gets the norm of the whole. If p is 1 or 2, all gradients of a GPU take
/// a few launches together; otherwise each gradient takes a few.
Tensor grad_norm(const std::vector<Tensor>& params, double p = 2.0);
/// Scales the gradients as clip_grad_norm() does, given their norm as a tensor of one element.
void clip_grads_with_norm(const std::vector<Tensor>& params, double max_norm,
                          const Tensor& total_norm);
/// \}

}  // namespace hero::optim
