#pragma once
#include <utility>

namespace hero::core {

/// A thread-local value that can be used even after the thread's own objects are destroyed: static
/// objects are destroyed later, and their destructors may compute. The value is then made again and
/// never destroyed. `Tag` distinguishes values of the same type.
template <class T, class Tag>
class PerThread {
 public:
  static T& get() {
    if (value_ == nullptr) [[unlikely]]
      make();
    return *value_;
  }

 private:
  struct Owner {
    ~Owner() {
      over_ = true;
      delete std::exchange(value_, nullptr);
    }
  };
  static void make() {
    if (!over_) {
      [[maybe_unused]] thread_local const Owner owner;
    }
    value_ = new T();
  }
  static inline constinit thread_local T* value_ = nullptr;
  static inline constinit thread_local bool over_ = false;
};

}  // namespace hero::core
