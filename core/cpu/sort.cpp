// Sorting by keys: every element becomes an unsigned number of the same order, NaN above all, and
// its position breaks ties, so that any sort is a stable one.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/kernels/sort_keys.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

struct LongKey {
  uint64_t key;
  int64_t position;
  friend bool operator<(const LongKey& a, const LongKey& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// A short key and a position fit one number.
uint64_t pair_of(uint32_t key, int64_t position) {
  return uint64_t{key} << 32 | static_cast<uint64_t>(position);
}
LongKey pair_of(uint64_t key, int64_t position) { return {key, position}; }
int64_t position_of(uint64_t pair) { return static_cast<int64_t>(pair & 0xFFFFFFFFu); }
int64_t position_of(const LongKey& pair) { return pair.position; }

template <class Key, class T, class Pair>
void sort_row(const T* x, int64_t n, bool descending, std::vector<Pair>& pairs, T* values,
              int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    const auto key = sort_key(x[i]);
    const Key shown = descending ? static_cast<Key>(~key) : static_cast<Key>(key);
    pairs[static_cast<size_t>(i)] = pair_of(shown, i);
  }
  std::sort(pairs.begin(), pairs.end());
  for (int64_t i = 0; i < n; ++i) indices[i] = position_of(pairs[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < n; ++i) values[i] = x[indices[i]];
}

template <class T, class Key>
void sort_as(const Array& x, int dim, bool descending, const Array& values, const Array& indices) {
  using Pair = decltype(pair_of(Key{}, int64_t{}));
  const RowReader<T> reader(x, dim);
  const RowWriter<T> value_writer(values, dim);
  const RowWriter<int64_t> index_writer(indices, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> in(reader.buffer_size()), value_buffer(value_writer.buffer_size());
    std::vector<int64_t> index_buffer(index_writer.buffer_size());
    std::vector<Pair> pairs(static_cast<size_t>(n));
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* value = value_writer.target(at, value_buffer.data());
      int64_t* index = index_writer.target(at, index_buffer.data());
      for (int64_t r = 0; r < count * n; r += n) {
        sort_row<Key>(rows + r, n, descending, pairs, value + r, index + r);
      }
      value_writer.commit(at, count, value);
      index_writer.commit(at, count, index);
    }
  });
}

}  // namespace

void CpuBackend::sort(const Array& x, int dim, bool descending, const Array& values,
                      const Array& indices) {
  if (x.numel() == 0) return;
  const bool long_rows = x.ndim() > 0 && x.shape()[dim] > int64_t{0xFFFFFFFF};
  dispatch_compute(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (sizeof(T) == 8 || long_rows) {
      sort_as<T, uint64_t>(x, dim, descending, values, indices);
    } else {
      sort_as<T, uint32_t>(x, dim, descending, values, indices);
    }
  });
}

}  // namespace hero::core::cpu
