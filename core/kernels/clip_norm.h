#pragma once
#include <hero/core/kernels/config.h>

namespace hero::core {

/// What clip_grad_norm multiplies gradients of this norm by so that it is at most max_norm; at 1 or
/// more they keep their bits. NaN where the norm is.
HERO_HD inline double clip_factor(double max_norm, double norm) { return max_norm / (norm + 1e-6); }

}  // namespace hero::core
