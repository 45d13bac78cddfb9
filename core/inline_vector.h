#pragma once
#include <cstddef>
#include <initializer_list>
#include <new>
#include <utility>
#include <vector>

namespace hero {

/// A vector whose first N elements lie in the object itself: graph nodes have one or two inputs, and
/// a heap allocation each would cost more than the operation.
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
  T* begin() { return size_ > N ? heap_.data() : local(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return const_cast<InlineVector*>(this)->begin(); }
  const T* end() const { return begin() + size_; }
  T& operator[](int i) { return begin()[i]; }
  const T& operator[](int i) const { return begin()[i]; }
  T& back() { return begin()[size_ - 1]; }

  void push_back(T value) {
    if (size_ < N) {
      new (local() + size_) T(std::move(value));
    } else {
      if (size_ == N) spill();
      heap_.push_back(std::move(value));
    }
    ++size_;
  }
  void resize(int count) {
    while (size_ < count) push_back(T());
  }
  void clear() {
    if (size_ <= N) {
      for (int i = 0; i < size_; ++i) local()[i].~T();
    }
    heap_.clear();
    size_ = 0;
  }

 private:
  T* local() { return std::launder(reinterpret_cast<T*>(bytes_)); }
  void spill() {
    heap_.reserve(2 * N + 1);
    for (int i = 0; i < N; ++i) {
      heap_.push_back(std::move(local()[i]));
      local()[i].~T();
    }
  }
  void take(InlineVector& other) {
    if (other.size_ <= N) {
      for (int i = 0; i < other.size_; ++i) new (local() + i) T(std::move(other.local()[i]));
      size_ = other.size_;
      other.clear();
    } else {
      heap_ = std::move(other.heap_);
      size_ = std::exchange(other.size_, 0);
      other.heap_.clear();
    }
  }

  int size_ = 0;
  alignas(T) std::byte bytes_[N * sizeof(T)];
  std::vector<T> heap_;
};

}  // namespace hero
