#pragma once
#include <utility>

namespace hero::core {

/// A value of each thread that may still be asked for when the thread's own objects are gone:
/// static objects are destroyed after them, and their destructors may compute. It is then made anew
/// and never destroyed. `Tag` tells values of one type apart.
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
