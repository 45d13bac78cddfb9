#pragma once
// Reading and writing arrays in blocks of contiguous, converted elements. Kernels are written once,
// for contiguous memory; layout, broadcasting and dtype conversion live here.
#include <cstring>
#include <limits>

#include <hero/core/array.h>

namespace hero::core::cpu {

/// Elements a block holds: a few blocks of double fit the first-level cache.
inline constexpr int64_t kBlock = 512;

/// Scratch for one block of any dtype.
struct alignas(64) Scratch {
  std::byte bytes[kBlock * 8];
};

/// Walks the row-major positions of `shape` over an array that broadcasts to it.
class BroadcastWalk {
 public:
  BroadcastWalk(const Array& array, const Shape& shape);

  /// True when position i lies at element i: no walking needed.
  bool linear() const { return linear_; }
  /// True if all positions have the same element.
  bool constant() const { return ndim_ == 1 && strides_[0] == 0; }
  /// Rows of evenly spaced elements: the number of elements of a row, and their distance.
  int64_t row_size() const { return sizes_[ndim_ - 1]; }
  int64_t row_stride() const { return strides_[ndim_ - 1]; }
  /// True if the rows are long enough for a kernel call for each.
  bool has_rows(int64_t stride) const { return row_stride() == stride && row_size() >= 128; }
  /// The element at a position, and the number of elements from there to the end of its row.
  struct RowPosition {
    int64_t element, left;
  };
  RowPosition place(int64_t position) const;
  /// Calls body(first_element, stride, count, done) for each run of positions [begin, begin +
  /// count).
  template <class Body>
  void runs(int64_t begin, int64_t count, Body&& body) const;

 private:
  int ndim_ = 0;
  bool linear_ = false;
  int64_t sizes_[kMaxDims + 1];
  int64_t strides_[kMaxDims + 1];
};

/// Converts `count` elements from `src` (strided) to `dst` (strided); strides count elements.
using ConvertFn = void (*)(int64_t count, const std::byte* src, int64_t src_stride, std::byte* dst,
                           int64_t dst_stride);
ConvertFn converter(DType from, DType to);

/// A number as a block of equal elements.
void fill_block(std::byte* block, int64_t count, DType dtype, Scalar value);

/// Reads an array, broadcast to `shape`, as contiguous elements of dtype `as`. bool reads as uint8
/// without conversion.
class BlockReader {
 public:
  BlockReader(const Array& array, const Shape& shape, DType as);
  /// True when read() returns the array's own memory.
  bool direct() const { return direct_; }
  /// The array's own memory where its elements have this dtype and lie in row-major order, one
  /// behind the other; else null.
  const std::byte* in_place(DType dtype) const {
    return walk_.linear() && dtype == dtype_ ? data_ : nullptr;
  }
  /// True if all positions read one element.
  bool constant() const { return walk_.constant(); }
  /// The elements lie in long rows, `stride` apart, and need no conversion.
  bool has_rows(int64_t stride) const { return !converts_ && walk_.has_rows(stride); }
  /// The elements from a position to the end of its row, where they are, if has_rows() or direct().
  struct Row {
    const std::byte* first;
    int64_t count;
  };
  Row row(int64_t position) const {
    const BroadcastWalk::RowPosition place = walk_.place(position);
    return {data_ + place.element * from_size_, place.left};
  }
  /// Elements [begin, begin + count) of the row-major order; count <= kBlock unless direct().
  const std::byte* read(int64_t begin, int64_t count, std::byte* scratch) const;

 private:
  BroadcastWalk walk_;
  const std::byte* data_;
  DType dtype_;
  int64_t from_size_, to_size_;
  bool converts_, direct_;
  ConvertFn convert_;
};

/// Writes contiguous elements of dtype `as` into an array.
class BlockWriter {
 public:
  BlockWriter(const Array& array, DType as);
  bool direct() const { return direct_; }
  /// Where a kernel writes elements [begin, ...): the array's memory if direct, else scratch.
  std::byte* target(int64_t begin, std::byte* scratch) const {
    return direct_ ? data_ + begin * to_size_ : scratch;
  }
  /// Results go straight to the array, row by row: its elements have the dtype `as`, and are direct
  /// or lie in long rows.
  bool has_rows() const { return has_rows_; }
  /// Where a kernel puts elements [begin, begin + count): the array's memory if has_rows(), else
  /// scratch, which commit() stores.
  struct Row {
    std::byte* first;
    int64_t count;
  };
  Row row(int64_t begin, std::byte* scratch) const {
    if (!has_rows_) return {scratch, std::numeric_limits<int64_t>::max()};
    const BroadcastWalk::RowPosition place = walk_.place(begin);
    return {data_ + place.element * to_size_, place.left};
  }
  /// Stores the elements that the kernel wrote into scratch; does nothing if direct.
  void commit(int64_t begin, int64_t count, const std::byte* scratch) const;

 private:
  BroadcastWalk walk_;
  std::byte* data_;
  int64_t from_size_, to_size_;
  bool direct_, has_rows_;
  ConvertFn convert_;
};

inline BroadcastWalk::RowPosition BroadcastWalk::place(int64_t position) const {
  if (ndim_ == 1) return {position * strides_[0], sizes_[0] - position};
  const int inner = ndim_ - 1;
  int64_t rest = position / sizes_[inner];
  const int64_t in_row = position - rest * sizes_[inner];
  int64_t element = in_row * strides_[inner];
  for (int i = inner - 1; i > 0; --i) {
    const int64_t outer = rest / sizes_[i];
    element += (rest - outer * sizes_[i]) * strides_[i];
    rest = outer;
  }
  return {element + rest * strides_[0], sizes_[inner] - in_row};
}

template <class Body>
void BroadcastWalk::runs(int64_t begin, int64_t count, Body&& body) const {
  int64_t index[kMaxDims + 1];
  int64_t element = 0;
  int64_t rest = begin;
  for (int i = ndim_ - 1; i >= 0; --i) {
    index[i] = rest % sizes_[i];
    rest /= sizes_[i];
    element += index[i] * strides_[i];
  }
  const int inner = ndim_ - 1;
  int64_t done = 0;
  while (done < count) {
    const int64_t run = std::min(sizes_[inner] - index[inner], count - done);
    body(element, strides_[inner], run, done);
    done += run;
    // Carry into the outer dimensions, as an odometer.
    element += (sizes_[inner] - index[inner]) * strides_[inner];
    index[inner] = 0;
    element -= sizes_[inner] * strides_[inner];
    for (int i = inner - 1; i >= 0; --i) {
      element += strides_[i];
      if (++index[i] < sizes_[i]) break;
      element -= sizes_[i] * strides_[i];
      index[i] = 0;
    }
  }
}

}  // namespace hero::core::cpu
