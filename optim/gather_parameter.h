#pragma once
// Gathering whole parameters from shards, for optimizers whose step needs all elements of a
// parameter at once.
#include <hero/autograd/tensor.h>

namespace hero::optim {

/// Gathers a whole, contiguous array of the parameter's shape from the `part` of each rank of its
/// group, which has the shape of that rank's leaf and may be its values, its gradient or a state.
/// If `leaf` is whole, it returns `part`. A collective of the leaf's group. It is exact: each
/// rank contributes the bits of its elements and zeros elsewhere, and these are added up as
/// integers. Throws an Error that begins with `optimizer` if a shard has no group.
Array gathered(const char* optimizer, const Tensor& leaf, const Array& part);

/// The leaf's elements of `whole`, in the leaf's shape; `whole` itself if the leaf is whole.
Array own_part(const Tensor& leaf, const Array& whole);

}  // namespace hero::optim
