
#include <hero/autograd/ops/detail/named.h>

namespace hero {

namespace {

constexpr const char* kGiven = "; given ";

}  // namespace

detail::Named::Named(const char* op) noexcept : Named(op, {}, {}, {}) {}
detail::Named::Named(const char* op, Argument first) noexcept : Named(op, first, {}, {}) {}
detail::Named::Named(const char* op, Argument first, Argument second) noexcept
    : Named(op, first, second, {}) {}
detail::Named::Named(const char* op, Argument first, Argument second, Argument third) noexcept
    : ErrorScope(adapt), op_(op), arguments_{first, second, third} {
  enter();
}

void detail::Named::adapt(const ErrorScope& scope, std::string& line) {
  const auto& named = static_cast<const Named&>(scope);
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return;
  // without what an operation further in was given
  const std::string text = line.substr(colon, line.rfind(kGiven) - colon);
  bool is_told = true;
  std::string given;
  for (const Argument& each : named.arguments_) {
    if (each.tensor == nullptr) break;
    if (!each.tensor->defined()) {
      line = named.op_ + (": " + (each.name + std::string(kUndefined)));
      return;
    }
    const std::string shape = to_string(each.tensor->shape());
    is_told = is_told && text.find(shape) != std::string::npos;
    given += (given.empty() ? kGiven : ", ") + (each.name + (" " + shape));
  }
  line = named.op_ + text;
  if (!is_told && text.find('[') != std::string::npos) line += given;
}

}  // namespace hero
