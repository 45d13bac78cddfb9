#pragma once
// For kernels along one dimension: every line of an array as a contiguous row of the type in which
// the kernel computes.
#include <hero/core/cpu/block_io.h>
#include <hero/core/device/backend_arguments.h>

namespace hero::core::cpu {

/// The position in a line of step i of n in this direction.
inline int64_t position_of_step(int64_t i, int64_t n, Direction direction) {
  return direction == Direction::forward ? i : n - 1 - i;
}

/// dispatch() over the types in which kernels compute.
template <class Body>
void dispatch_compute(DType dtype, Body&& body) {
  dispatch(dtype, [&]<class E>(TypeTag<E>) { body(TypeTag<Compute<E>>{}); });
}

/// The view with `dim` moved last; a number becomes one row of one element.
inline Array rows_along(const Array& x, int dim) {
  if (x.ndim() == 0) return x.unsqueeze(0);
  Dims order;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != dim) order.push_back(i);
  }
  order.push_back(dim);
  return x.permute(order);
}

/// Rows that are handled together: as many as a cache line has columns, so that strided lines are
/// read in whole cache lines.
inline constexpr int64_t kRowGroup = 16;

/// The lines of an array along one dimension. The array must not be empty.
class Rows {
 public:
  Rows(const Array& x, int dim);
  int64_t length() const { return length_; }
  int64_t count() const { return count_; }
  /// Rows to handle at a time: kRowGroup, or fewer if rows are long and a buffer would be large.
  int64_t group() const { return group_; }
  /// Rows that a thread handles at a time: whole groups.
  int64_t grain() const;

 protected:
  Array rows_;
  int64_t length_, count_, group_;
  int64_t stride_;        // between the elements of a line
  BroadcastWalk starts_;  // first elements of the lines
};

/// Reads lines; those that are not contiguous elements of type T are gathered into the caller's
/// buffer.
template <class T>
class RowReader : public Rows {
 public:
  RowReader(const Array& x, int dim);
  /// The number of elements of the caller's buffer.
  size_t buffer_size() const {
    return reader_.direct() ? 0 : static_cast<size_t>(group_ * length_);
  }
  /// Reads `count` <= group() rows, one after the other.
  const T* read(int64_t first, int64_t count, T* buffer) const;

 private:
  BlockReader reader_;
  ConvertFn convert_;
};

/// Writes lines.
template <class T>
class RowWriter : public Rows {
 public:
  RowWriter(const Array& out, int dim);
  size_t buffer_size() const {
    return writer_.direct() ? 0 : static_cast<size_t>(group_ * length_);
  }
  /// Where a kernel writes rows: the array's memory or the buffer.
  T* target(int64_t first, T* buffer) const {
    auto* bytes = reinterpret_cast<std::byte*>(buffer);
    return reinterpret_cast<T*>(writer_.target(first * length_, bytes));
  }
  /// Stores rows that the kernel wrote into the buffer; does nothing for the array's own memory.
  void commit(int64_t first, int64_t count, const T* buffer) const;

 private:
  BlockWriter writer_;
  ConvertFn convert_;
};

}  // namespace hero::core::cpu
