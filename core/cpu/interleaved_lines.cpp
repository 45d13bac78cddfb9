#include <hero/core/cpu/interleaved_lines.h>

namespace hero::core::cpu {

namespace {

// A piece has at most so many elements, so that it stays in the caches, if it can. Long lines in
// narrow pieces would fall into few of a cache's sets, so these are gathered.
constexpr int64_t kMostElements = 524288;
constexpr int64_t kNarrow = 128;
constexpr int64_t kWidest = 1024;

// How many of the last dimensions lie densely in memory, behind `dim` at most.
int dense_dims(const Array& x, int dim) {
  int64_t size = 1;
  int count = 0;
  for (int i = x.ndim() - 1; i > dim; --i, ++count) {
    if (x.shape()[i] > 1 && x.strides()[i] != size) break;
    size *= x.shape()[i];
  }
  return count;
}

// x without some of its dimensions: its first elements there.
Array first_of(const Array& x, int dim, int columns) {
  Shape shape;
  Dims strides;
  for (int i = 0; i < x.ndim() - columns; ++i) {
    if (i == dim) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

}  // namespace

ColumnLayout::ColumnLayout(int d, Passes passes, std::initializer_list<const Array*> arrays)
    : dim(d) {
  const Array& x = **arrays.begin();
  columns = x.ndim();
  for (const Array* array : arrays) columns = std::min(columns, dense_dims(*array, dim));
  for (int i = x.ndim() - columns; i < x.ndim(); ++i) inner *= x.shape()[i];
  if (x.ndim() > 0) n = x.shape()[dim];
  outer = x.numel() / (n * inner);
  // Narrow pieces are slow to read. For several passes pieces are about a thread's grain, but
  // narrow only where they would leave the caches.
  width = kWidest;
  if (passes == Passes::several) {
    const int64_t least = std::max(std::min(kNarrow, kMostElements / n), kRowGroup);
    width = std::clamp(2 * kGrain / n, least, kWidest);
    width -= width % kRowGroup;
  }
  gathers = passes == Passes::several && width < std::min(inner, kNarrow);
  width = std::min(width, inner);
  pieces = (inner + width - 1) / width;
}

template <class T>
ColumnPieces<T>::ColumnPieces(const Array& x, const ColumnLayout& layout)
    : layout_(layout),
      starts_(first_of(x, layout.dim, layout.columns),
              first_of(x, layout.dim, layout.columns).shape()),
      data_(x.bytes()),
      item_(item_size(x.dtype())),
      step_(x.shape()[layout.dim] > 1 ? x.strides()[layout.dim] : 0),
      direct_(x.dtype() == kDTypeOf<T> && !layout.gathers),
      from_(converter(x.dtype(), kDTypeOf<T>)),
      to_(converter(kDTypeOf<T>, x.dtype())) {}

template <class T>
std::byte* ColumnPieces<T>::start(int64_t piece) const {
  std::byte* at = data_ + piece % layout_.pieces * layout_.width * item_;
  starts_.runs(piece / layout_.pieces, 1,
               [&](int64_t element, int64_t, int64_t, int64_t) { at += element * item_; });
  return at;
}

template <class T>
const T* ColumnPieces<T>::read_row(std::byte* start, int64_t i, int64_t width, T* room) const {
  const std::byte* from = start + i * step_ * item_;
  if (direct_) return reinterpret_cast<const T*>(from);
  from_(width, from, 1, reinterpret_cast<std::byte*>(room), 1);
  return room;
}

template <class T>
void ColumnPieces<T>::store_row(std::byte* start, int64_t i, int64_t width, const T* row) const {
  if (direct_) return;
  to_(width, reinterpret_cast<const std::byte*>(row), 1, start + i * step_ * item_, 1);
}

template <class T>
RowsOf<T> ColumnPieces<T>::target(int64_t piece, T* room) const {
  if (direct_) return {reinterpret_cast<T*>(start(piece)), step_};
  return {room, layout_.columns_of(piece)};
}

template <class T>
RowsOf<const T> ColumnPieces<T>::read(int64_t piece, T* room) const {
  const RowsOf<T> rows = target(piece, room);
  std::byte* const from = start(piece);
  for (int64_t i = 0; i < layout_.n && !direct_; ++i) read_row(from, i, rows.step, rows[i]);
  return {rows.data, rows.step};
}

template <class T>
void ColumnPieces<T>::store(int64_t piece, const RowsOf<T>& rows) const {
  std::byte* const to = start(piece);
  for (int64_t i = 0; i < layout_.n && !direct_; ++i) store_row(to, i, rows.step, rows[i]);
}

template class ColumnPieces<float>;
template class ColumnPieces<double>;
template class ColumnPieces<int64_t>;
template class ColumnPieces<int32_t>;
template class ColumnPieces<uint8_t>;

}  // namespace hero::core::cpu
