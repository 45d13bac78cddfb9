#pragma once
// What an object owns and loses when it is moved from; for the headers of dist.
#include <memory>
#include <utility>

#include <hero/core/error.h>

namespace hero::dist {

/// A pointer to what an object owns alone. After the object was moved from, an Error that begins
/// with `name` says so, whatever is done to it.
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
