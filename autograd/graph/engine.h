#pragma once
// The walk through a recorded graph that backward() and grad() make.
#include <hero/autograd/graph/node.h>

namespace hero {

/// What the first part of a pass left of a node to the second: see deferred.h.
struct BegunNode {
  core::Ref<detail::Node> node;
  Grads grads;         // of the node's outputs; of its inputs where they are known
  bool known = false;  // backward has run: the gradients must only be passed on
};

/// The request of a backward pass.
struct BackwardRequest {
  std::vector<detail::Edge> roots;
  std::vector<Tensor> gradients;  // one a root
  std::vector<detail::Edge>
      captures;  // grad(): these gradients are returned, leaves are left alone
  bool retain_graph = false;
  bool create_graph = false;
  std::vector<BegunNode> begun = {};  // of a second part: where it goes on
  BackwardRequest* rest =
      nullptr;  // of a first part: gets what does not lead to a captured gradient
};

/// Makes a walk from outputs and their gradients, which are ones if none are given. `op` names the
/// caller in messages.
BackwardRequest make_backward_request(const char* op, const std::vector<Tensor>& outputs,
                                      const std::vector<Tensor>& gradients);

/// Runs the pass: newest nodes first, and leaves before all others. Returns the captured gradients.
/// See engine.cpp.
std::vector<Tensor> run_backward(BackwardRequest walk);

/// True while a backward pass (backward() or grad()) runs on this thread, in its hooks too.
bool backward_running();

/// True in a pass, and in what it calls when it ends, whose rest is to run later and needs saved
/// values then.
bool backward_has_rest();

}  // namespace hero
