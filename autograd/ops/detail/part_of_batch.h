#pragma once
// Random numbers of operations that drop or change each element by itself.
#include <hero/autograd/ops/creation/creation.h>

namespace hero::detail {

/// rand() of a floating dtype for this thread's part of a batch: of the numbers that the whole
/// batch would get, those behind the numbers of the ranks before.
Tensor rand_of_part(const Shape& shape, const TensorOptions& options);

}  // namespace hero::detail
