#pragma once
// ErrorScope: open scopes of a thread that rewrite the text of an Error before it is thrown; the
// mechanism behind detail::Named.
#include <string>

#include <hero/core/error.h>

namespace hero::detail {

/// While it lives, its function can change the text of each Error that fail() throws on this
/// thread. The functions of open scopes are called from the innermost scope to the outermost.
/// Scopes end in the opposite order in which they began.
class ErrorScope {
 public:
  /// Changes the text `line` of an error.
  using Adapt = void (*)(const ErrorScope& scope, std::string& line);

  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

  /// The innermost scope of this thread, null if there is none. While a worker of the thread pool
  /// works for another thread, it has that thread's scope.
  static const ErrorScope*& current();

 protected:
  // A function pointer and not a virtual function: every operation has a scope whose destructor is
  // inline, and a virtual table would make each of these larger.
  explicit ErrorScope(Adapt adapt) : adapt_(adapt) {}
  ~ErrorScope();
  /// Begins the scope; the constructor of a derived class calls it last.
  void enter() noexcept;

 private:
  friend void throw_error(std::string line);

  const Adapt adapt_;
  const ErrorScope* outer_ = nullptr;
};

}  // namespace hero::detail
