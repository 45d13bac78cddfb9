#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero::detail {

Grads composed_backward(const detail::Node& node, const std::vector<Tensor>& inputs,
                        const Grads& grads, const Composed& composed) {
  std::vector<bool> wanted;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) wanted.push_back(node.needs(i));
  return composed_backward(wanted, inputs, grads, composed);
}

// Each input becomes a tensor of its own: one may have been computed from another, and the
// derivative wanted here is the partial one.
Grads composed_backward(const std::vector<bool>& wanted, const std::vector<Tensor>& inputs,
                        const Grads& grads, const Composed& composed) {
  const EnableGrad enable_grad;
  std::vector<Tensor> arguments, leaves, roots;
  GradOptions options{.create_graph = true, .allow_unused = true};
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(wanted[i] ? reshape(inputs[i], inputs[i].shape()) : inputs[i]);
    if (wanted[i]) leaves.push_back(arguments.back());
  }
  const std::vector<Tensor> outputs = composed(arguments);
  for (size_t i = 0; i < outputs.size() && static_cast<int>(i) < grads.size(); ++i) {
    const Tensor& g = grads[static_cast<int>(i)];
    if (!g.defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    options.grad_outputs.push_back(g);
  }
  Grads result;
  result.resize(static_cast<int>(inputs.size()));
  if (roots.empty()) return result;
  const std::vector<Tensor> found = grad(roots, leaves, options);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i]) result[static_cast<int>(i)] = found[next++];
  }
  return result;
}

}  // namespace hero::detail
