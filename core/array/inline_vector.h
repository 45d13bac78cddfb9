#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace hero {

/// A vector whose first N elements lie in the object itself: graph nodes have one or two inputs,
/// and a heap allocation each would cost more than the operation.
template <class T, int N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector(const InlineVector& other) {
    for (const T& value : other) push_back(value);
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      clear();
      for (const T& value : other) push_back(value);
    }
    return *this;
  }
  ~InlineVector() { clear(); }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return heap_ ? heap_ : local(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return const_cast<InlineVector*>(this)->begin(); }
  const T* end() const { return begin() + size_; }
  T& operator[](int i) { return begin()[i]; }
  const T& operator[](int i) const { return begin()[i]; }
  T& back() { return begin()[size_ - 1]; }

  void push_back(T value) { emplace_back(std::move(value)); }
  /// Constructs the element in place, so that a large one is not written twice.
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == (heap_ ? capacity_ : N)) [[unlikely]]
      grow();
    T* made = new (begin() + size_) T{std::forward<Args>(args)...};
    ++size_;
    return *made;
  }
  void resize(int count) {
    while (size_ < count) push_back(T());
  }
  void clear() {
    std::destroy_n(begin(), size_);
    size_ = 0;
    if (heap_) [[unlikely]]
      std::allocator<T>().deallocate(std::exchange(heap_, nullptr), static_cast<size_t>(capacity_));
  }

 private:
  T* local() { return std::launder(reinterpret_cast<T*>(bytes_)); }
  void grow() {
    const int wider = 2 * size_ + 1;
    T* moved = std::allocator<T>().allocate(static_cast<size_t>(wider));
    std::uninitialized_move_n(begin(), size_, moved);
    const int kept = size_;
    clear();
    heap_ = moved;
    capacity_ = wider;
    size_ = kept;
  }
  void take(InlineVector& other) {
    if (other.heap_) [[unlikely]] {
      heap_ = std::exchange(other.heap_, nullptr);
      capacity_ = other.capacity_;
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.local(), other.size_, local());
    size_ = other.size_;
    other.clear();
  }

  int size_ = 0;
  int capacity_ = 0;   // of heap_
  T* heap_ = nullptr;  // all elements, once there are more than N
  alignas(T) std::byte bytes_[N * sizeof(T)];
};

}  // namespace hero
