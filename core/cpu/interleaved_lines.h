#pragma once
// Lines along a dimension that is not contiguous: elements that are neighbours in memory belong to
// different lines. Kernels compute many lines side by side, a row of columns at a time, and read
// the rows in place if they are contiguous.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

/// Rows of neighbouring elements, `step` elements apart.
template <class T>
struct RowsOf {
  T* data = nullptr;
  int64_t step = 0;
  T* operator[](int64_t i) const { return data + i * step; }
};

/// Whether a kernel reads the rows of a piece once, in order, or needs all of them several times.
enum class Passes : uint8_t { one, several };

/// Arrays seen along `dim` as `outer` times n rows of `inner` columns, which are contiguous in all
/// arrays, and cut into pieces of `width` columns. False if there are too few columns.
class ColumnLayout {
 public:
  ColumnLayout(int dim, Passes passes, std::initializer_list<const Array*> arrays);
  explicit operator bool() const { return inner >= kRowGroup; }
  /// Calls body(begin, end) for parts of all pieces.
  template <class Body>
  void share(Body&& body) const {
    parallel_for(outer * pieces, std::max<int64_t>(1, kGrain / (n * width)), body);
  }
  int64_t columns_of(int64_t piece) const {
    return std::min(width, inner - piece % pieces * width);
  }
  /// The position of the piece's first column among all.
  int64_t column_of(int64_t piece) const { return piece / pieces * inner + piece % pieces * width; }

  int dim, columns = 0;  ///< the number of dimensions of the columns
  int64_t outer = 1, n = 1, inner = 1, width = 1, pieces = 1;
  bool gathers = false;  ///< true: narrow pieces of long rows are copied to contiguous memory
};

/// Prefetches n elements.
template <class T>
[[gnu::always_inline]] inline void fetch(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; i += int64_t{64 / sizeof(T)}) __builtin_prefetch(x + i);
}

/// The pieces of one array. `room` is scratch memory for elements that are not T, and for gathered
/// pieces.
template <class T>
class ColumnPieces {
 public:
  ColumnPieces(const Array& x, const ColumnLayout& layout);
  /// The number of elements of scratch memory for a piece.
  size_t room() const { return direct_ ? 0 : static_cast<size_t>(layout_.n * layout_.width); }
  RowsOf<const T> read(int64_t piece, T* room) const;
  /// Where a kernel writes a piece, which the kernel then stores.
  RowsOf<T> target(int64_t piece, T* room) const;
  void store(int64_t piece, const RowsOf<T>& rows) const;

  /// The same row by row, with scratch memory for one row; `start` is start(piece).
  std::byte* start(int64_t piece) const;
  const T* read_row(std::byte* start, int64_t i, int64_t width, T* room) const;
  /// Prefetches a row that is read next: the processor itself prefetches only within a page.
  void fetch_row(std::byte* start, int64_t i, int64_t width) const {
    if (i >= 0 && i < layout_.n) fetch(start + i * step_ * item_, width * item_);
  }
  T* row_target(std::byte* start, int64_t i, T* room) const {
    return direct_ ? reinterpret_cast<T*>(start + i * step_ * item_) : room;
  }
  void store_row(std::byte* start, int64_t i, int64_t width, const T* row) const;

 private:
  ColumnLayout layout_;
  BroadcastWalk starts_;
  std::byte* data_;
  int64_t item_, step_;
  bool direct_;
  ConvertFn from_, to_;
};

}  // namespace hero::core::cpu
