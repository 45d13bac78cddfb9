#pragma once
// Positions along a dimension that the CPU finds without the operations that a GPU composes them
// of.
#include <hero/core/device/backend_arguments.h>

namespace hero::core::cpu {

/// For each line of x along `dim`, in row-major order, the position of what would be element k if
/// it were sorted as Backend::sort() does. x has no empty dimension `dim`.
void find_kth(const Array& x, int dim, int64_t k, int64_t* positions);

/// The largest or smallest element up to each one along `dim`, and where it is: of several the
/// last, and of NaN, which wins over all numbers. All have x's shape, positions are int64.
void running_extremes(ArgOp op, const Array& x, int dim, const Array& values,
                      const Array& positions);

}  // namespace hero::core::cpu
