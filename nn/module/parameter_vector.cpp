#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/parameter_vector.h>

namespace hero::nn {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  check(!parameters.empty(), "parameters_to_vector: there are no parameters");
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) {
    check(p.defined(), "parameters_to_vector: parameter ", flat.size(), " is undefined");
    const Tensor& first = parameters.front();
    check(p.dtype() == first.dtype() && p.device() == first.device(),
          "parameters_to_vector: parameter ", flat.size(), " is ", p.dtype(), " on ", p.device(),
          ", the first one is ", first.dtype(), " on ", first.device());
    flat.push_back(reshape(p, {p.numel()}));
  }
  return cat(flat, 0);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  check(vector.defined(), "vector_to_parameters: the vector is undefined");
  int64_t count = 0;
  for (const Tensor& p : parameters) {
    check(p.defined(), "vector_to_parameters: a parameter is undefined");
    count += p.numel();
  }
  check(vector.ndim() == 1 && vector.numel() == count, "vector_to_parameters: a vector ",
        vector.shape(), " does not fit ", count, " elements of parameters");
  const NoGrad no_grad;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    p.copy_(reshape(slice(vector, 0, at, at + p.numel()), p.shape()));
    at += p.numel();
  }
}

}  // namespace hero::nn
