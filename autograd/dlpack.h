#pragma once
// Tensors from and for other libraries by DLPack, which shares memory; see <hero/core/dlpack.h>.
#include <hero/autograd/tensor.h>
#include <hero/core/dlpack.h>

namespace hero {

/// \name For other libraries
/// What core::to_dlpack() gives of the tensor's values. Backward does not notice what the other
/// side writes. An Error for a tensor that requires grad, whose history nobody else can go on with:
/// give detach() of it.
/// \{
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, uint64_t flags = 0);
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x);
/// \}

/// \name From other libraries
/// A leaf over the memory of `managed`, as core::from_dlpack() makes an array of it.
/// \{
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* managed);
Tensor from_dlpack(dlpack::DLManagedTensor* managed);
/// \}

}  // namespace hero
