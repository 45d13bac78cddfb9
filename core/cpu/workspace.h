#pragma once
#include <hero/core/memory/allocator.h>

namespace hero::core::cpu {

/// Uninitialised memory for `count` elements from the caching allocator, for the time of a kernel.
template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(T))),
        data_(static_cast<T*>(allocate(bytes_ > 0 ? bytes_ : 1))) {}
  ~Workspace() { deallocate(data_, bytes_ > 0 ? bytes_ : 1); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* data() const { return data_; }

 private:
  int64_t bytes_;
  T* data_;
};

}  // namespace hero::core::cpu
