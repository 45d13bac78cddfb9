#pragma once
// Owned: a unique_ptr whose use after a move is an Error; internal to dist.
#include <memory>
#include <utility>

#include <hero/core/error.h>

namespace hero::dist {

/// The sole owner of an object. After it was moved from, every access throws an Error that begins
/// with `name`.
template <class T>
class Owned {
 public:
  /// Owns `object`; `name` must outlive it.
  Owned(const char* name, std::unique_ptr<T> object) : name_(name), object_(std::move(object)) {}

  /// The object.
  T& operator*() const {
    check(object_ != nullptr, name_, ": it was moved from; use the one that it was moved into");
    return *object_;
  }
  /// A member of the object.
  T* operator->() const { return &**this; }

 private:
  const char* name_;
  std::unique_ptr<T> object_;
};

}  // namespace hero::dist
