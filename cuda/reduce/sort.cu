// Stable sorts along a dimension: elements become unsigned keys of the same order with their line's
// number above, so that one radix sort puts all lines in order.
#include <bit>

#include <hero/core/kernels/sort_keys.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/index/index_lines.cuh>
#include <hero/cuda/reduce/sort_pairs.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

// The key of every element; `lines` of them have their line's number in the upper half.
template <class T, class K>
__global__ void sort_key_kernel(const T* x, Layout layout, int64_t n, int64_t length,
                                bool descending, bool lines, K* keys, int64_t* positions) {
  using C = Compute<T>;
  using U = core::SortBits<C>;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const U found = core::sort_key(convert<C>(x[layout.at(i)]));
    K key = descending ? static_cast<U>(~found) : found;
    if constexpr (sizeof(K) > sizeof(U)) {
      if (lines) key |= static_cast<K>(i / length) << 32;
    }
    keys[i] = key;
    positions[i] = i;
  }
}

__global__ void line_kernel(const int64_t* positions, int64_t n, int64_t length, int64_t* lines) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) lines[i] = positions[i] / length;
}

template <class W>
__global__ void sorted_kernel(const W* x, Layout layout, const int64_t* positions, int64_t n,
                              int64_t length, W* values, Layout value_layout, int64_t* indices,
                              Layout index_layout) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const int64_t from = positions[i];
    values[value_layout.at(i)] = x[layout.at(from)];
    indices[index_layout.at(i)] = from - i / length * length;
  }
}

template <class K, class T>
Pairs sort_keys(const Array& lines, int64_t length, bool descending, int bits) {
  const int64_t n = lines.numel();
  const Array keys = Array::empty({n}, sizeof(K) == 8 ? kInt64 : kInt32, lines.device());
  const Array positions = Array::empty({n}, kInt64, lines.device());
  launch("sort", sort_key_kernel<T, K>, blocks_for(n), dim3(kThreads), 0,
         reinterpret_cast<const T*>(lines.bytes()), Layout(lines), n, length, descending,
         length < n, reinterpret_cast<K*>(keys.bytes()),
         reinterpret_cast<int64_t*>(positions.bytes()));
  return sort_pairs(keys, positions, bits);
}

// Row-major positions of the elements, line after line, each line in order.
Array sorted_positions(const Array& lines, int64_t length, bool descending) {
  const int64_t n = lines.numel();
  const auto line_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(n / length - 1)));
  Pairs sorted;
  dispatch(lines.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (sizeof(T) == 8) {
      sorted = sort_keys<uint64_t, T>(lines, length, descending, 64);
      if (line_bits == 0) return;
      // A stable sort by line keeps the order inside of lines.
      launch("sort", line_kernel, blocks_for(n), dim3(kThreads), 0,
             reinterpret_cast<const int64_t*>(sorted.values.bytes()), n, length,
             reinterpret_cast<int64_t*>(sorted.keys.bytes()));
      sorted = sort_pairs(sorted.keys, sorted.values, line_bits);
    } else if (line_bits == 0) {
      sorted = sort_keys<uint32_t, T>(lines, length, descending, 32);
    } else {
      sorted = sort_keys<uint64_t, T>(lines, length, descending, 32 + line_bits);
    }
  });
  return sorted.values;
}

}  // namespace

void CudaBackend::sort(const Array& x, int dim, bool descending, const Array& values,
                       const Array& indices) {
  const int64_t n = x.numel();
  if (n == 0) return;
  const DeviceGuard guard(index_);
  const Array lines = lines_along(x, dim);
  const int64_t length = lines.shape()[lines.ndim() - 1];
  check(n / length <= int64_t{1} << 32, "sort: ", n / length, " lines are more than 2^32");
  const Array positions = sorted_positions(lines, length, descending);
  dispatch_word(x.dtype(), [&]<class W>(TypeTag<W>) {
    launch("sort", sorted_kernel<W>, blocks_for(n), dim3(kThreads), 0,
           reinterpret_cast<const W*>(lines.bytes()), Layout(lines),
           reinterpret_cast<const int64_t*>(positions.bytes()), n, length,
           reinterpret_cast<W*>(values.bytes()), Layout(lines_along(values, dim)),
           reinterpret_cast<int64_t*>(indices.bytes()), Layout(lines_along(indices, dim)));
  });
}

}  // namespace hero::cuda
