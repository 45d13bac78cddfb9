#include <algorithm>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>

namespace hero::core::cpu {

namespace {

// A buffer of rows holds at most this many elements, unless a single row is longer.
constexpr int64_t kBuffer = 65536;

}  // namespace

Rows::Rows(const Array& x, int dim)
    : rows_(rows_along(x, dim)),
      length_(rows_.shape().back()),
      count_(rows_.numel() / length_),
      group_(std::clamp<int64_t>(kBuffer / length_, 1, kRowGroup)),
      stride_(rows_.strides().back()),
      starts_(rows_.select(-1, 0), rows_.select(-1, 0).shape()) {}

int64_t Rows::grain() const {
  const int64_t rows = std::max<int64_t>(1, kGrain / length_);
  return (rows + group_ - 1) / group_ * group_;
}

// Lines that lie side by side are read and written in pieces of up to kRowGroup neighbouring
// elements and turned by way of a small square tile: a line alone would touch a cache line for each
// of its elements.

template <class T>
RowReader<T>::RowReader(const Array& x, int dim)
    : Rows(x, dim),
      reader_(rows_, rows_.shape(), kDTypeOf<T>),
      convert_(converter(x.dtype(), kDTypeOf<T>)) {}

template <class T>
const T* RowReader<T>::read(int64_t first, int64_t count, T* buffer) const {
  const int64_t n = length_;
  const auto read_lines = [&](int64_t row, int64_t rows, T* to) {
    const auto* from = reader_.read(row * n, rows * n, reinterpret_cast<std::byte*>(to));
    return reinterpret_cast<const T*>(from);
  };
  if (reader_.direct()) return read_lines(first, count, buffer);
  const std::byte* data = rows_.bytes();
  const int64_t item = item_size(rows_.dtype());
  starts_.runs(first, count, [&](int64_t element, int64_t step, int64_t run, int64_t done) {
    T* to = buffer + done * n;
    if (step != 1 || run < 4) {
      read_lines(first + done, run, to);
      return;
    }
    for (int64_t i = 0; i < n; i += kRowGroup) {
      T tile[kRowGroup][kRowGroup];
      const int64_t height = std::min(kRowGroup, n - i);
      for (int64_t k = 0; k < height; ++k) {
        const std::byte* from = data + (element + (i + k) * stride_) * item;
        convert_(run, from, 1, reinterpret_cast<std::byte*>(tile[k]), 1);
      }
      for (int64_t c = 0; c < run; ++c) {
        for (int64_t k = 0; k < height; ++k) to[c * n + i + k] = tile[k][c];
      }
    }
  });
  return buffer;
}

template <class T>
RowWriter<T>::RowWriter(const Array& out, int dim)
    : Rows(out, dim), writer_(rows_, kDTypeOf<T>), convert_(converter(kDTypeOf<T>, out.dtype())) {}

template <class T>
void RowWriter<T>::commit(int64_t first, int64_t count, const T* buffer) const {
  if (writer_.direct()) return;
  const int64_t n = length_;
  std::byte* data = rows_.bytes();
  const int64_t item = item_size(rows_.dtype());
  starts_.runs(first, count, [&](int64_t element, int64_t step, int64_t run, int64_t done) {
    const T* from = buffer + done * n;
    if (step != 1 || run < 4) {
      writer_.commit((first + done) * n, run * n, reinterpret_cast<const std::byte*>(from));
      return;
    }
    for (int64_t i = 0; i < n; i += kRowGroup) {
      T tile[kRowGroup][kRowGroup];
      const int64_t height = std::min(kRowGroup, n - i);
      for (int64_t c = 0; c < run; ++c) {
        for (int64_t k = 0; k < height; ++k) tile[k][c] = from[c * n + i + k];
      }
      for (int64_t k = 0; k < height; ++k) {
        std::byte* to = data + (element + (i + k) * stride_) * item;
        convert_(run, reinterpret_cast<const std::byte*>(tile[k]), 1, to, 1);
      }
    }
  });
}

template class RowReader<float>;
template class RowReader<double>;
template class RowReader<int64_t>;
template class RowReader<int32_t>;
template class RowReader<uint8_t>;
template class RowWriter<float>;
template class RowWriter<double>;
template class RowWriter<int64_t>;
template class RowWriter<int32_t>;
template class RowWriter<uint8_t>;

}  // namespace hero::core::cpu
