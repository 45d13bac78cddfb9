#pragma once
// Errors of operations that are made of others. [note: the name that was called]
// An operation that delegates to another one lets that one check what both want alike. Its Error
// would then name a function that the program did not call, and shapes that were only made on the
// way. So the body of such an operation is a function-try-block, which names the operation:
//
//   Tensor mv(const Tensor& a, const Tensor& v) try {
//     ...
//   } catch (const Error& error) {
//     detail::name_op(error, "mv", {{"a", a}, {"v", v}});
//   }
//
// What the operation can say better itself, it checks before it delegates.
#include <initializer_list>

#include <hero/autograd/ops/defined.h>

namespace hero::detail {

/// Throws the error again under the name `op`. If one of the arguments, which are the required
/// ones, is undefined, says so instead; if the error tells shapes, and that of an argument is not
/// among them, adds what was given.
[[noreturn]] void name_op(const Error& error, const char* op,
                          std::initializer_list<Argument> arguments);

}  // namespace hero::detail
