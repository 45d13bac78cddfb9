// Stable sorts along a dimension: elements become unsigned keys of the same order with their line's
// number above, so that one radix sort puts all lines in order. It carries 32-bit positions where
// they suffice, and sorted keys become numbers again.
#include <bit>
#include <limits>

#include <hero/core/kernels/sort_keys.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/index/index_lines.cuh>
#include <hero/cuda/reduce/sort_pairs.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

// Row-major positions of elements, line after line: int64, or int32 where there are fewer than
// 2^31.
struct Positions {
  std::byte* first;
  bool wide;

  explicit Positions(const Array& positions)
      : first(positions.bytes()), wide(positions.dtype() == kInt64) {}
  __device__ int64_t at(int64_t i) const {
    return wide ? reinterpret_cast<const int64_t*>(first)[i]
                : reinterpret_cast<const int32_t*>(first)[i];
  }
  __device__ void set(int64_t i, int64_t position) const {
    if (wide) {
      reinterpret_cast<int64_t*>(first)[i] = position;
    } else {
      reinterpret_cast<int32_t*>(first)[i] = static_cast<int32_t>(position);
    }
  }
};

// The key of every element; `lines` of them have their line's number in the upper half.
template <class T, class K>
__global__ void sort_key_kernel(const T* x, Layout layout, int64_t n, int64_t length,
                                bool descending, bool lines, K* keys, Positions positions) {
  using C = Compute<T>;
  using U = core::SortBits<C>;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const U found = core::sort_key(convert<C>(x[layout.at(i)]));
    K key = descending ? static_cast<U>(~found) : found;
    if constexpr (sizeof(K) > sizeof(U)) {
      if (lines) key |= static_cast<K>(i / length) << 32;
    }
    keys[i] = key;
    positions.set(i, i);
  }
}

__global__ void line_kernel(Positions positions, int64_t n, int64_t length, int64_t* lines) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) lines[i] = positions.at(i) / length;
}

// What is written of each line: its elements in order, and where in the line they were.
struct Sorted {
  std::byte* values;
  Layout value_layout;
  int64_t* indices;
  Layout index_layout;
};

// Elements by their positions, or, with their keys, which lie nearer, by these.
template <class T, class K>
__global__ void sorted_kernel(const T* x, Layout layout, const K* keys, bool descending,
                              Positions positions, int64_t n, int64_t length, Sorted sorted) {
  using C = Compute<T>;
  using U = core::SortBits<C>;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const int64_t from = positions.at(i);
    T* const to = reinterpret_cast<T*>(sorted.values) + sorted.value_layout.at(i);
    U key = ~U{0};
    if (keys) key = descending ? ~static_cast<U>(keys[i]) : static_cast<U>(keys[i]);
    *to = keys && core::has_one_number<C>(key) ? convert<T>(core::number_of<C>(key))
                                               : x[layout.at(from)];
    sorted.indices[sorted.index_layout.at(i)] = from - i / length * length;
  }
}

// K: of the elements' keys, and of those that were sorted last.
template <class T, class K>
void sort_lines(const Array& lines, int64_t length, bool descending, int line_bits,
                const Sorted& sorted) {
  const int64_t n = lines.numel();
  const bool wide = n > std::numeric_limits<int32_t>::max();
  const Array keys = Array::empty({n}, sizeof(K) == 8 ? kInt64 : kInt32, lines.device());
  const Array positions = Array::empty({n}, wide ? kInt64 : kInt32, lines.device());
  const auto* x = reinterpret_cast<const T*>(lines.bytes());
  launch("sort", sort_key_kernel<T, K>, blocks_for(n), dim3(kThreads), 0, x, Layout(lines), n,
         length, descending, length < n, reinterpret_cast<K*>(keys.bytes()), Positions(positions));
  const bool apart = sizeof(T) == 8 && line_bits > 0;  // no room for the line in the keys
  Pairs pairs = sort_pairs(
      keys, positions,
      static_cast<int>(8 * sizeof(core::SortBits<Compute<T>>)) + (sizeof(T) == 8 ? 0 : line_bits));
  if (apart) {
    // A stable sort by line keeps the order inside of lines.
    launch("sort", line_kernel, blocks_for(n), dim3(kThreads), 0, Positions(pairs.values), n,
           length, reinterpret_cast<int64_t*>(pairs.keys.bytes()));
    pairs = sort_pairs(pairs.keys, pairs.values, line_bits);
  }
  launch("sort", sorted_kernel<T, K>, blocks_for(n), dim3(kThreads), 0, x, Layout(lines),
         apart ? nullptr : reinterpret_cast<const K*>(pairs.keys.bytes()), descending,
         Positions(pairs.values), n, length, sorted);
}

}  // namespace

void CudaBackend::run(const call::Sort& call) {
  const int64_t n = call.x.numel();
  if (n == 0) return;
  const DeviceGuard guard(index_);
  const Array lines = lines_along(call.x, call.dim);
  const int64_t length = lines.shape()[lines.ndim() - 1];
  check(n / length <= int64_t{1} << 32, "sort: ", n / length, " lines are more than 2^32");
  const auto line_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(n / length - 1)));
  const Sorted sorted{call.values.bytes(), Layout(lines_along(call.values, call.dim)),
                      reinterpret_cast<int64_t*>(call.indices.bytes()),
                      Layout(lines_along(call.indices, call.dim))};
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (sizeof(T) == 8) {
      sort_lines<T, uint64_t>(lines, length, call.descending, line_bits, sorted);
    } else if (line_bits == 0) {
      sort_lines<T, uint32_t>(lines, length, call.descending, line_bits, sorted);
    } else {
      sort_lines<T, uint64_t>(lines, length, call.descending, line_bits, sorted);
    }
  });
}

}  // namespace hero::cuda
