#pragma once
// What adaptive average and maximum pooling share: their output sizes.
#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>

namespace hero::detail {

/// Refuses output sizes below 0, and x [.., H, W] without pixels.
inline void check_cells(const char* op, const Tensor& x, hero::Pair cells) {
  check(cells[0] >= 0 && cells[1] >= 0, op,
        ": output_size must not be negative, except -1: ", Shape{cells[0], cells[1]});
  check(x.size(-2) > 0 && x.size(-1) > 0, op, ": x has no pixels: shape ", x.shape());
}

/// The result for an output size of which one number is 0; its gradient is zeros.
inline Tensor no_cells(const Tensor& x, hero::Pair cells) {
  Shape shape = x.shape();
  shape[x.ndim() - 2] = cells[0];
  shape[x.ndim() - 1] = cells[1];
  return reshape(narrow(x, cells[0] == 0 ? -2 : -1, 0, 0), shape);
}

}  // namespace hero::detail
