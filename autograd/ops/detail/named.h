#pragma once
// Errors of operations that are made of others. [note: the name that was called]
// An operation that delegates to another one lets that one check what both want alike. Its Error
// would then name a function that the program did not call, and shapes that were only made on the
// way. So such an operation begins by naming itself:
//
//   Tensor mv(const Tensor& a, const Tensor& v) {
//     const detail::Named named("mv", {"a", a}, {"v", v});
//     ...
//
// What the operation can say better itself, it checks before it delegates.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/core/error_scope.h>

namespace hero::detail {

/// While it lives, errors that are thrown on this thread begin with `op`. If one of the arguments
/// (those that the operation requires) is undefined, the error says so instead; if it names shapes,
/// but not the shape of an argument, the shapes of the arguments are added.
class Named : ErrorScope {
 public:
  explicit Named(const char* op) noexcept;
  Named(const char* op, Argument first) noexcept;
  Named(const char* op, Argument first, Argument second) noexcept;
  Named(const char* op, Argument first, Argument second, Argument third) noexcept;

 private:
  static void adapt(const ErrorScope& scope, std::string& line);

  const char* op_;
  Argument arguments_[3];
};

}  // namespace hero::detail
