#pragma once
// What operations say of arguments that are undefined, where they look at them before record()
// does.
#include <initializer_list>

#include <hero/autograd/tensor.h>

namespace hero::detail {

/// A tensor and the name that the header gives it.
struct Argument {
  const char* name;
  const Tensor& tensor;
};

/// Refuses undefined tensors.
inline void check_defined(const char* op, std::initializer_list<Argument> arguments) {
  for (const Argument& each : arguments) {
    check(each.tensor.defined(), op, ": ", each.name, " is undefined (default-made or moved from)");
  }
}

/// Refuses lists with undefined tensors.
inline void check_defined(const char* op, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].defined(), op, ": tensor ", i,
          " of the list is undefined (default-made or moved from)");
  }
}

}  // namespace hero::detail
