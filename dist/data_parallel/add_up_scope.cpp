#include <algorithm>

#include <hero/dist/data_parallel/add_up_scope.h>

namespace hero::dist {

AddUpScope*& AddUpScope::innermost() {
  thread_local AddUpScope* scope = nullptr;
  return scope;
}

AddUpScope::AddUpScope() : outer_(std::exchange(innermost(), this)) {}
AddUpScope::~AddUpScope() {
  if (innermost() == this) innermost() = outer_;
}

void AddUpScope::owe(const void* replica, std::function<void()> average) {
  auto& owed = innermost()->owed_;
  const bool known = std::any_of(owed.begin(), owed.end(),
                                 [&](const auto& entry) { return entry.first == replica; });
  if (!known) owed.emplace_back(replica, std::move(average));
}

void AddUpScope::average() {
  innermost() = outer_;
  for (const auto& [replica, average] : std::exchange(owed_, {})) average();
}

}  // namespace hero::dist
