#pragma once
// What adaptive average and maximum pooling share: their output sizes.
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/nn/nn.h>

namespace hero::detail {

/// Refuses output sizes below -1, which stands for x's own, and x [.., H, W] without pixels; both
/// for as many dimensions as there are output sizes.
inline void check_cells(const char* op, const Tensor& x, const Shape& cells) {
  for (int i = 0; i < cells.size(); ++i) {
    check(cells[i] >= -1, op, ": output_size must not be negative, except -1: ", cells);
    check(x.size(i - cells.size()) > 0, op, ": x has no pixels: shape ", x.shape());
  }
}

/// The result for an output size of which one number is 0; its gradient is zeros.
inline Tensor no_cells(const Tensor& x, hero::Pair cells) {
  Shape shape = x.shape();
  shape[x.ndim() - 2] = cells[0];
  shape[x.ndim() - 1] = cells[1];
  return reshape(narrow(x, cells[0] == 0 ? -2 : -1, 0, 0), shape);
}

}  // namespace hero::detail
