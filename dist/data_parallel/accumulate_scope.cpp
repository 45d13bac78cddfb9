#include <algorithm>

#include <hero/dist/data_parallel/accumulate_scope.h>

namespace hero::dist {

AccumulateScope*& AccumulateScope::innermost() {
  thread_local AccumulateScope* scope = nullptr;
  return scope;
}

AccumulateScope::AccumulateScope() : outer_(std::exchange(innermost(), this)) {}
AccumulateScope::~AccumulateScope() {
  if (innermost() == this) innermost() = outer_;
}

void AccumulateScope::average_later(const void* module, std::function<void()> average) {
  auto& later = innermost()->later_;
  const bool known = std::any_of(later.begin(), later.end(),
                                 [&](const auto& entry) { return entry.first == module; });
  if (!known) later.emplace_back(module, std::move(average));
}

void AccumulateScope::average() {
  innermost() = outer_;
  for (const auto& [module, average] : std::exchange(later_, {})) average();
}

}  // namespace hero::dist
