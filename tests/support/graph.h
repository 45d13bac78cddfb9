#pragma once
// The graph behind a tensor.
#include <string_view>
#include <unordered_set>
#include <vector>

#include <hero/autograd/graph/node.h>
#include <hero/autograd/tensor.h>

namespace hero::test {

/// How many recorded operations of that name lie behind x.
inline int count_nodes(const Tensor& x, std::string_view name) {
  std::vector<const detail::Node*> open{x.grad_fn()};
  std::unordered_set<const detail::Node*> seen;
  int count = 0;
  while (!open.empty()) {
    const detail::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    count += node->name() == name;
    for (int i = 0; i < node->input_count(); ++i) open.push_back(node->input_edge(i).node.get());
  }
  return count;
}

}  // namespace hero::test
