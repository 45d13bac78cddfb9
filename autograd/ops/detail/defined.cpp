#include <hero/autograd/ops/detail/defined.h>

namespace hero {

void detail::check_defined(const char* op, std::initializer_list<Argument> arguments) {
  for (const Argument& each : arguments) {
    check(each.tensor->defined(), op, ": ", each.name, kUndefined);
  }
}

void detail::check_defined(const char* op, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].defined(), op, ": tensor ", i, " of the list", kUndefined);
  }
}

}  // namespace hero
