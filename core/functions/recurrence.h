#pragma once
// Linear recurrences along a dimension, by which the derivatives of running products are computed.
#include <hero/core/device/backend.h>

namespace hero::core {

/// r[.., i, ..] = b[.., i, ..] + a[.., j, ..] r[.., j, ..] along `dim`, where j is i - 1 or,
/// backward, i + 1; the first r is b. a and b have one shape and one dtype, float32 or float64. The
/// CPU computes in double, one element after the other; a GPU in rounds, after each of which an
/// element depends on twice as many elements.
Array recurrence(const Array& a, const Array& b, int dim, Direction direction);

}  // namespace hero::core
