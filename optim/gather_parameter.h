#pragma once
// Whole parameters for optimizers whose step looks at all elements at once, from shards and back.
#include <hero/autograd/tensor.h>

namespace hero::optim {

/// The whole parameter, contiguous, of what each owner has for a leaf's elements: `part` has the
/// leaf's shape and may be its values, its gradient or a state. For a whole leaf it is
/// `part`. A collective of the leaf's owners, and no bit changes on the way: each gives the bits of
/// its elements and zeros elsewhere, and the words are added up. `optimizer` names the Error where
/// a shard has no owners.
Array gathered(const char* optimizer, const Tensor& leaf, const Array& part);

/// This leaf's elements of the whole, in the leaf's shape; `whole` itself for a leaf that is whole.
Array own_part(const Tensor& leaf, const Array& whole);

}  // namespace hero::optim
