#pragma once
#include <hero/core/kernels/config.h>

namespace hero::core {

/// The factor by which clip_grad_norm multiplies gradients of this norm so that the norm is at most
/// max_norm; if it is 1 or more, gradients stay as they are. NaN if the norm is NaN.
HERO_HD inline double clip_factor(double max_norm, double norm) { return max_norm / (norm + 1e-6); }

}  // namespace hero::core
