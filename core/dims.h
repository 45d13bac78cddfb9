#pragma once
// Dims: a short inline vector of sizes, strides or numbers of dimensions. It needs no heap memory,
// because a shape is copied with every array handle.
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <hero/core/error.h>

namespace hero {

inline constexpr int kMaxDims = 8;

/// The types of a number that can be given in place of a list with one entry.
template <class T>
concept DimNumber = std::integral<T> && !std::same_as<T, bool>;

/// Up to kMaxDims int64 values, used for shapes (elements in each dimension), strides (in elements)
/// and lists of dimensions. A number is a list of one: zeros(3), x.view(-1), x.sum(1).
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t value : values) push_back(value);
  }
  template <DimNumber I>
  Dims(I value) : Dims{static_cast<int64_t>(value)} {}
  explicit Dims(std::span<const int64_t> values) {
    for (int64_t value : values) push_back(value);
  }
  Dims(const std::vector<int64_t>& values) : Dims(std::span<const int64_t>(values)) {}
  /// Converts a vector of another integer type.
  template <DimNumber T>
  Dims(const std::vector<T>& values) {
    for (T value : values) push_back(static_cast<int64_t>(value));
  }
  /// `count` copies of `value`.
  static Dims filled(int count, int64_t value) {
    Dims dims;
    for (int i = 0; i < count; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return values_[i]; }
  int64_t& operator[](int i) { return values_[i]; }
  int64_t back() const { return values_[size_ - 1]; }
  int64_t& back() { return values_[size_ - 1]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + size_; }
  int64_t* begin() { return values_; }
  int64_t* end() { return values_ + size_; }

  void push_back(int64_t value) {
    check(size_ < kMaxDims, "shape: more than ", kMaxDims, " dimensions");
    values_[size_++] = value;
  }
  void pop_back() { --size_; }
  void insert(int at, int64_t value) {
    push_back(0);
    for (int i = size_ - 1; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = value;
  }
  void erase(int at) {
    for (int i = at; i + 1 < size_; ++i) values_[i] = values_[i + 1];
    --size_;
  }
  bool contains(int64_t value) const { return std::find(begin(), end(), value) != end(); }
  /// The product of the entries: the number of elements of a shape, 1 without dimensions. Throws an
  /// Error that names `op` for a negative size, or if the product of all sizes but 0 is 2^63 or
  /// more, since then strides and positions do not fit into 64 bits.
  int64_t numel(const char* op = "shape") const {
    int64_t product = 1;
    bool fits = true, empty = false;
    for (int i = 0; i < size_; ++i) {
      const int64_t size = values_[i];
      empty |= size == 0;
      fits &= size >= 0;
      fits &= !__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
    }
    if (!fits) [[unlikely]]
      fail_numel(op);
    return empty ? 0 : product;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }

 private:
  [[noreturn, gnu::cold]] void fail_numel(const char* op) const;

  // All entries, so that a copy is a few vector moves of fixed length and no loop.
  int size_ = 0;
  int64_t values_[kMaxDims] = {};
};

using Shape = Dims;

/// "[2, 3]".
std::string to_string(const Dims& dims);

/// The row-major strides of a contiguous array of this shape.
Dims contiguous_strides(const Shape& shape);

/// The position of the last element of a view, given by sizes, strides and `offset`. Throws an
/// Error for negative sizes, strides and offsets, and for positions beyond 64 bits.
int64_t last_position(const char* op, const Shape& shape, const Dims& strides, int64_t offset);

/// The shape to which both broadcast by NumPy's rules; `op` names the caller in the error.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// Returns `dim` counted from the front, for an array of `ndim` dimensions; a negative `dim` counts
/// from the end.
int normalize_dim(const char* op, int64_t dim, int ndim);

/// Normalizes every dimension of a list. Duplicates are an Error; an empty list means all
/// dimensions.
Dims normalize_dims(const char* op, const Dims& dims, int ndim);

}  // namespace hero
