#pragma once
// Checks that several optimizers' options share.
#include <limits>

#include <hero/core/error.h>

namespace hero::optim {

/// Throws unless value >= 0 and finite.
inline void check_not_negative(const char* optimizer, const char* option, double value) {
  check(value >= 0.0 && value <= std::numeric_limits<double>::max(), optimizer, ": ", option,
        " must be 0 or more: ", value);
}

/// Throws unless 0 <= value < 1.
inline void check_fraction(const char* optimizer, const char* option, double value) {
  check(value >= 0.0 && value < 1.0, optimizer, ": ", option, " must be in [0, 1): ", value);
}

/// Checks the options that every optimizer of the Adam family has.
template <class Options>
void check_adam_options(const char* optimizer, const Options& o) {
  check_not_negative(optimizer, "lr", o.lr);
  check_fraction(optimizer, "beta1", o.betas[0]);
  check_fraction(optimizer, "beta2", o.betas[1]);
  check_not_negative(optimizer, "weight_decay", o.weight_decay);
  if constexpr (requires { o.eps; }) check_not_negative(optimizer, "eps", o.eps);
}

}  // namespace hero::optim
