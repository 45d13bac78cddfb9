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
void check_defined(const char* op, std::initializer_list<Argument> arguments);
/// Refuses lists with undefined tensors.
void check_defined(const char* op, const std::vector<Tensor>& tensors);

}  // namespace hero::detail
