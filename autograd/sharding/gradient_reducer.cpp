#include <algorithm>
#include <utility>

#include <hero/autograd/graph/node.h>
#include <hero/autograd/sharding/gradient_reducer.h>

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
  std::vector<const ConsistencyChecker*> told;
  std::string text;
  const auto tell = [&](ConsistencyChecker* ranks) {
    if (ranks == nullptr || std::find(told.begin(), told.end(), ranks) != told.end()) return;
    if (told.empty()) text = what();
    told.push_back(ranks);
    ranks->declare(text);
  };
  for (const Tensor& leaf : leaves) {
    const Partition* part = partition(leaf);
    if (part != nullptr && part->group) tell(part->group.get());
    tell(gradient_reducer(leaf).get());
  }
}

}  // namespace hero
