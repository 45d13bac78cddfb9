#pragma once
// What operations say of arguments that are undefined, where they look at them before record()
// does.
#include <initializer_list>

#include <hero/autograd/tensor.h>

namespace hero::detail {

/// A tensor and the name that the header gives it; nothing, where it is default-made.
struct Argument {
  const char* name = nullptr;
  const Tensor* tensor = nullptr;

  Argument() = default;
  Argument(const char* n, const Tensor& t) : name(n), tensor(&t) {}
};

/// What is said behind the name of an undefined tensor.
constexpr const char* kUndefined =
    " is undefined (default-made, moved from, or a gradient before backward())";

/// Refuses undefined tensors.
void check_defined(const char* op, std::initializer_list<Argument> arguments);
/// Refuses lists with undefined tensors.
void check_defined(const char* op, const std::vector<Tensor>& tensors);

}  // namespace hero::detail
