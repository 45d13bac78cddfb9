#pragma once
// Ref<T>: an intrusive reference-counted pointer of one word, without a control block. The count is
// in the object, so a handle can be made from a raw pointer.
#include <atomic>
#include <cstdint>
#include <utility>

namespace hero::core {

/// The base of counted objects. They are destroyed by T::destroy(T*), for the static type T.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  /// True if the caller had the last reference.
  bool drop() const {
    // The sole owner needs no atomic subtraction: nobody else can be counting.
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool unique() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  ~Counted() = default;
  /// The count itself, for a class that counts in its own way.
  std::atomic<uint32_t>& count() const { return count_; }

 private:
  mutable std::atomic<uint32_t> count_{1};
};

/// Shared ownership of a T that derives from Counted and has `static void destroy(T*)`.
template <class T>
class Ref {
 public:
  Ref() = default;
  /// Takes over the reference of the creator of `object`.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds a reference.
  static Ref share(T* object) {
    if (object) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(const Ref& other) {
    Ref(other).swap(*this);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref(std::move(other)).swap(*this);
    return *this;
  }
  ~Ref() { reset(); }

  void reset() {
    if (T* object = std::exchange(object_, nullptr); object && object->drop()) T::destroy(object);
  }
  /// Returns the reference to the caller, which must adopt it again.
  T* release() { return std::exchange(object_, nullptr); }
  void swap(Ref& other) { std::swap(object_, other.object_); }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace hero::core
