#pragma once
// This header has the check that the recurrent cells share.
#include <hero/autograd/ops/nn/nn.h>

namespace hero::detail {

/// Throws unless one step of a cell with `gates` blocks of rows takes x and h with these weights.
void check_cell(const char* op, const Tensor& x, const Tensor& h, const CellWeights& weights,
                int64_t gates);

}  // namespace hero::detail
