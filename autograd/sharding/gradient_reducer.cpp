#include <algorithm>
#include <utility>

#include <hero/autograd/graph/node.h>
#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/autograd/sharding/unreduced_gradients.h>

namespace hero {

std::shared_ptr<GradientReducer> gradient_reducer(const Tensor& leaf) {
  std::shared_ptr<GradientReducer> found;
  if (!leaf.defined()) return found;
  const detail::Hooks* hooks = leaf.impl()->hooks.load(std::memory_order_acquire);
  if (hooks == nullptr) return found;
  const detail::LeafTurn turn(leaf.impl()->lock);
  for (const auto& hook : hooks->leaf) {
    const auto* averaging = hook.call.target<AveragingHook>();
    if (averaging == nullptr || !hook.alive->load()) continue;
    found = averaging->reducer.lock();
    if (found) break;
  }
  return found;
}

namespace {
thread_local GradientReducerScope* innermost = nullptr;
}

GradientReducerScope::GradientReducerScope() : outer_(std::exchange(innermost, this)) {}
GradientReducerScope::~GradientReducerScope() { innermost = outer_; }

void GradientReducerScope::enter(const std::shared_ptr<GradientReducer>& reducer) {
  for (GradientReducerScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    auto& list = scope->entered_;
    if (std::find(list.begin(), list.end(), reducer) == list.end()) list.push_back(reducer);
  }
}

// The number found so far goes on, so that groups which cross agree in the end.
int64_t GradientReducerScope::largest(int64_t number, const char* op) const {
  for (const auto& reducer : entered_) number = reducer->largest(number, op);
  return number;
}

void declare(const std::vector<Tensor>& leaves, const std::function<std::string()>& what) {
  std::string text;
  declare_each(leaves, [&](const std::vector<size_t>&) {
    if (text.empty()) text = what();
    return text;
  });
}

void declare_each(const std::vector<Tensor>& leaves,
                  const std::function<std::string(const std::vector<size_t>&)>& what) {
  std::vector<std::pair<ConsistencyChecker*, std::vector<size_t>>> told;
  const auto add = [&](ConsistencyChecker* ranks, size_t leaf) {
    if (ranks == nullptr) return;
    auto found = std::find_if(told.begin(), told.end(),
                              [&](const auto& each) { return each.first == ranks; });
    if (found == told.end()) found = told.insert(told.end(), {ranks, {}});
    found->second.push_back(leaf);
  };
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Partition* part = partition(leaves[i]);
    if (part != nullptr) add(part->group.get(), i);
    add(gradient_reducer(leaves[i]).get(), i);
  }
  for (const auto& [ranks, numbers] : told) ranks->declare(what(numbers));
}

std::string name_on_ranks(const Tensor& leaf) {
  const auto owner = std::dynamic_pointer_cast<HoldsUnreducedGradients>(parameter_owner(leaf));
  if (owner) return owner->name_of(leaf);
  const auto reducer = gradient_reducer(leaf);
  return reducer ? reducer->name_of(leaf) : "";
}

}  // namespace hero
