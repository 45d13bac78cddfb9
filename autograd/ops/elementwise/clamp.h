#pragma once
// What clamp and clamp_ share.
#include <optional>

#include <hero/core/scalar.h>

namespace hero::detail {

struct Bounds {
  Scalar low, high;
};

/// The bounds of clamp for an array of `dtype`, both there and both within the range of the
/// result's dtype: of integers no bound may wrap, and an absent one is one that nothing crosses.
Bounds clamp_bounds(const char* op, DType dtype, std::optional<Scalar> low,
                    std::optional<Scalar> high);

}  // namespace hero::detail
