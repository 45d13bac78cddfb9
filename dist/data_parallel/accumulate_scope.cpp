#include <algorithm>

#include <hero/dist/data_parallel/accumulate_scope.h>

namespace hero::dist {

AddUpScope*& AddUpScope::innermost() {
  thread_local AddUpScope* scope = nullptr;
  return scope;
}

AddUpScope::AddUpScope() : outer_(std::exchange(innermost(), this)) {}
AddUpScope::~AddUpScope() {
  if (innermost() == this) innermost() = outer_;
}

void AddUpScope::average_later(const void* module, std::function<void()> average) {
  auto& later = innermost()->later_;
  const bool known = std::any_of(later.begin(), later.end(),
                                 [&](const auto& entry) { return entry.first == module; });
  if (!known) later.emplace_back(module, std::move(average));
}

void AddUpScope::average() {
  innermost() = outer_;
  for (const auto& [module, average] : std::exchange(later_, {})) average();
}

}  // namespace hero::dist
