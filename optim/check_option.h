#pragma once
// Checks that several optimizers' options share.
#include <hero/core/error.h>

namespace hero::optim {

/// Throws unless value >= 0 and finite.
inline void check_not_negative(const char* optimizer, const char* option, double value) {
  check(value >= 0.0 && value <= 1e300, optimizer, ": ", option, " must be 0 or more: ", value);
}

/// Throws unless 0 <= value < 1.
inline void check_fraction(const char* optimizer, const char* option, double value) {
  check(value >= 0.0 && value < 1.0, optimizer, ": ", option, " must be in [0, 1): ", value);
}

}  // namespace hero::optim
