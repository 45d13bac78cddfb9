#pragma once
// Linear recurrences along a dimension, of which the derivatives of running products consist.
#include <hero/core/device/backend.h>

namespace hero::core {

/// r[.., i, ..] = b[.., i, ..] + a[.., j, ..] r[.., j, ..] along `dim`, where j is i - 1 or,
/// backward, i + 1; the first r is b. a and b have one shape and one dtype, float32 or float64. On
/// the CPU, floats are computed in double, an element after the other; on a GPU in rounds, each of
/// which lets every element see twice as far.
Array recurrence(const Array& a, const Array& b, int dim, Direction direction);

}  // namespace hero::core
