#include <utility>

#include <hero/autograd/graph/deferred.h>
#include <hero/autograd/graph/engine.h>

namespace hero {

DeferredBackward::DeferredBackward() = default;
DeferredBackward::DeferredBackward(BackwardRequest rest)
    : rest_(std::make_unique<BackwardRequest>(std::move(rest))) {}
DeferredBackward::~DeferredBackward() = default;
DeferredBackward::DeferredBackward(DeferredBackward&&) noexcept = default;
DeferredBackward& DeferredBackward::operator=(DeferredBackward&&) noexcept = default;

void DeferredBackward::run() {
  if (const std::unique_ptr<BackwardRequest> rest = std::move(rest_))
    run_backward(std::move(*rest));
}

std::vector<Tensor> grad_first(const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& inputs, DeferredBackward& rest,
                               const GradOptions& options) {
  check(!options.retain_graph && !options.create_graph,
        "grad_first: the graph cannot be kept, since its parts run one after the other; use grad() "
        "or backward()");
  BackwardRequest walk = make_backward_request("grad_first", outputs, options.grad_outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].defined() && inputs[i].is_leaf() && inputs[i].requires_grad(),
          "grad_first: input ", i, " must be a leaf that requires grad");
    walk.captures.push_back(detail::gradient_edge(inputs[i]));
  }
  BackwardRequest later;
  walk.rest = &later;
  std::vector<Tensor> result = run_backward(std::move(walk));
  for (size_t i = 0; i < result.size(); ++i) {
    check(result[i].defined() || options.allow_unused, "grad_first: the outputs do not depend on ",
          "input ", i, "; pass allow_unused = true to get an undefined gradient");
  }
  rest = DeferredBackward(std::move(later));
  return result;
}

}  // namespace hero
