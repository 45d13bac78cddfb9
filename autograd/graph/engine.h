#pragma once
// The engine, which runs the nodes of a recorded graph for backward() and grad().
#include <hero/autograd/graph/node.h>

namespace hero {

/// A node that the first part of a two-part backward pass (deferred.h) leaves to the second part.
struct BegunNode {
  core::Ref<detail::Node> node;
  Grads grads;         // of the node's outputs or, if `known`, of its inputs
  bool known = false;  // the node's backward has run: its results only have to be passed on
};

/// The request of a backward pass.
struct BackwardRequest {
  std::vector<detail::Edge> roots;
  std::vector<Tensor> gradients;  // one for each root
  std::vector<detail::Edge>
      captures;  // grad(): gradients to return; grad() of leaves stays as it is
  bool retain_graph = false;
  bool create_graph = false;
  std::vector<BegunNode> begun = {};  // of a second part: the nodes where it continues
  BackwardRequest* rest =
      nullptr;  // of a first part: receives the work that leads to no captured gradient
};

/// Makes the request for outputs and their gradients, which are ones if none are given. `op` names
/// the caller in messages.
BackwardRequest make_backward_request(const char* op, const std::vector<Tensor>& outputs,
                                      const std::vector<Tensor>& gradients);

/// Runs the pass: newest nodes first, and leaves before all others. Returns the captured gradients.
/// See engine.cpp.
std::vector<Tensor> run_backward(BackwardRequest walk);

/// True while a backward pass (backward() or grad()) runs on this thread, in its hooks too.
bool backward_running();

/// True during the first part of a two-part pass, its on_backward_end() callbacks included: the
/// second part will need saved values later.
bool backward_has_rest();

}  // namespace hero
