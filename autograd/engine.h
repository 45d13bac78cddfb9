#pragma once
// This header has the walk through a recorded graph that backward() and grad() make.
#include <hero/autograd/node.h>

namespace hero {

/// What one backward pass is asked to do.
struct Walk {
  std::vector<Edge> roots;
  std::vector<Tensor> gradients;  // one a root
  std::vector<Edge> captures;     // grad(): these gradients are returned, leaves are left alone
  bool retain_graph = false;
  bool create_graph = false;
};

/// Runs the pass: newest node first, leaves before all others. Returns the captured gradients. See
/// engine.cpp.
std::vector<Tensor> run_walk(const Walk& walk);

/// True while a backward pass (backward() or grad()) runs on this thread, in its hooks too.
bool backward_running();

}  // namespace hero
