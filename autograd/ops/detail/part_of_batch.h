#pragma once
// Random numbers of operations that drop or change each element by itself.
#include <hero/autograd/ops/creation/creation.h>

namespace hero::detail {

/// rand() of a floating dtype for this thread's part of a batch (batch_part()): its share of the
/// numbers that the whole batch would get, after those of the ranks before it.
Tensor rand_of_part(const Shape& shape, const TensorOptions& options);

}  // namespace hero::detail
