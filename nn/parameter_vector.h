#pragma once
// Parameters as one vector, and back: nn.utils.parameters_to_vector of PyTorch.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn {

/// All elements of the parameters, one after another, as one tensor [N], through which gradients
/// go. They have one dtype and lie on one device; an Error names two that differ.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Writes the elements of `vector` [N] into the parameters in this order. The numbers of elements
/// must agree, else nothing is written. It is not recorded.
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace hero::nn
