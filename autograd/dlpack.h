#pragma once
// Exchange of tensors with other libraries by DLPack, which shares memory; see
// <hero/core/dlpack.h>.
#include <hero/autograd/tensor.h>
#include <hero/core/dlpack.h>

namespace hero {

/// \name For other libraries
/// Returns core::to_dlpack() of the tensor's values. Backward does not notice writes by the other
/// library. Throws an Error for a tensor that requires grad, since the other library cannot record
/// its history: pass x.detach().
/// \{
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, uint64_t flags = 0);
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x);
/// \}

/// \name From other libraries
/// Returns a leaf that shares the memory of core::from_dlpack(managed), with the same errors.
/// \{
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* managed);
Tensor from_dlpack(dlpack::DLManagedTensor* managed);
/// \}

}  // namespace hero
