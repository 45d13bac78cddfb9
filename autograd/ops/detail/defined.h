#pragma once
// Checks for undefined arguments, for operations that use arguments before record() checks them.
#include <initializer_list>

#include <hero/autograd/tensor.h>

namespace hero::detail {

/// A tensor argument and its name in the header; a default-constructed Argument stands for none.
struct Argument {
  const char* name = nullptr;
  const Tensor* tensor = nullptr;

  Argument() = default;
  Argument(const char* n, const Tensor& t) : name(n), tensor(&t) {}
};

/// The text of errors after the name of an undefined tensor.
constexpr const char* kUndefined =
    " is undefined (default-made, moved from, or a gradient before backward())";

/// Throws an Error that names the first undefined argument.
void check_defined(const char* op, std::initializer_list<Argument> arguments);
/// Throws an Error if a tensor of the list is undefined.
void check_defined(const char* op, const std::vector<Tensor>& tensors);

}  // namespace hero::detail
