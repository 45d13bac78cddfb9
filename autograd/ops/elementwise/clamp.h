#pragma once
// The bounds of clamp() and clamp_().
#include <optional>

#include <hero/core/scalar.h>

namespace hero::detail {

struct Bounds {
  Scalar low, high;
};

/// The bounds of clamp() for an array of `dtype`, both within the range of the result's dtype, so
/// that an integer bound does not wrap. An absent bound becomes one that no number exceeds.
Bounds clamp_bounds(const char* op, DType dtype, std::optional<Scalar> low,
                    std::optional<Scalar> high);

}  // namespace hero::detail
