// Writing through indices, in index order and without atomics. Lines with few indices are walked by
// one thread each. In other lines, elements are sorted stably by their destination, so that those
// of one destination form a run in index order; runs are summed in chunks of fixed length, whose
// sums are then added up in order.
#include <bit>

#include <hero/core/kernels/scattered.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/index/index_lines.cuh>
#include <hero/cuda/reduce/sort_pairs.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

constexpr int kChunk = 32;      // sorted positions that one thread adds up
constexpr int kAhead = 4;       // rows on their way at a time
constexpr int64_t kShort = 16;  // indices of a line that one thread walks

// \name Lines with few indices
struct Line {
  Layout starts;
  int64_t stride;
  Line(const Array& lines)
      : starts(lines.select(-1, 0)), stride(lines.strides()[lines.ndim() - 1]) {}
};

template <class T>
__device__ void put(ScatterMode mode, T& target, T value) {
  using C = Compute<T>;
  if (mode == ScatterMode::assign) {
    target = value;
  } else {
    target = convert<T>(core::kernels::scattered(mode, convert<C>(target), convert<C>(value)));
  }
}

template <class T>
__global__ void scatter_lines_kernel(ScatterMode mode, const T* src, Line from,
                                     const int64_t* index, Line indices, T* out, Line to,
                                     int64_t jump, int64_t count, int64_t length) {
  for (int64_t line = global_thread(); line < count; line += grid_threads()) {
    const T* value = src + from.starts.at(line);
    const int64_t* place = index + indices.starts.at(line);
    T* target = out + to.starts.at(line);
    for (int64_t i = 0; i < length; ++i) {
      put(mode, target[place[i * indices.stride] * jump], value[i * from.stride]);
    }
  }
}

// \name Runs of equal keys
// The key of entry i of the lines: the row-major position of its target in a `size`-long line.
template <class K>
__global__ void key_kernel(const int64_t* index, Layout layout, int64_t n, int64_t length,
                           int64_t size, K* keys, int64_t* positions) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    keys[i] = static_cast<K>(i / length * size + index[layout.at(i)]);
    positions[i] = i;
  }
}

// Where the terms of a sorted sum come from and go to: columns are the packs of V elements of all
// outer slabs, term `position` of column c lies at src[o][position][c], key k's place is
// out[o][k][c]
struct Rows {
  int64_t n, columns;         // sorted terms, packs
  int64_t packs;              // of one slab's row
  int64_t src_slab, src_row;  // elements from slab to slab and term to term
  int64_t out_slab;
  Layout places;  // of keys in a slab of out
  ScatterMode mode = ScatterMode::add;
};

template <class T, class K, int V>
struct Sum {
  using C = Compute<T>;
  using Row = Pack<T, V>;

  static __device__ void load(C (&sum)[V], const T* from) {
    const Row row = *reinterpret_cast<const Row*>(from);
    for (int v = 0; v < V; ++v) sum[v] = convert<C>(row.at[v]);
  }
  static __device__ void store(const C (&sum)[V], T* to) {
    Row row;
    for (int v = 0; v < V; ++v) row.at[v] = convert<T>(sum[v]);
    *reinterpret_cast<Row*>(to) = row;
  }
};

// One thread adds up one chunk of one column. Runs that lie inside go to their places; the parts of
// runs that the chunk's ends cut go to `before` and `after`, which hold one row a chunk.
template <class T, class K, int V>
__global__ void add_chunks_kernel(const T* src, const K* keys, const int64_t* positions, Rows rows,
                                  Compute<T> factor, T* out, Compute<T>* before,
                                  Compute<T>* after) {
  using S = Sum<T, K, V>;
  using C = Compute<T>;
  const int64_t chunks = (rows.n + kChunk - 1) / kChunk;
  for (int64_t task = global_thread(); task < chunks * rows.columns; task += grid_threads()) {
    const int64_t chunk = task / rows.columns, column = task - chunk * rows.columns;
    const int64_t slab = column / rows.packs, first = (column - slab * rows.packs) * V;
    const T* from = src + slab * rows.src_slab + first;
    T* target = out + slab * rows.out_slab + first;
    const int64_t begin = chunk * kChunk, end = std::min<int64_t>(begin + kChunk, rows.n);
    K key = keys[begin];
    bool cut = begin > 0 && keys[begin - 1] == key;  // the run began in another chunk
    C sum[V];
    for (int v = 0; v < V; ++v) sum[v] = core::kernels::neutral<C>(rows.mode);
    if (!cut) S::load(sum, target + rows.places.at(static_cast<int64_t>(key)));
    const auto keep = [&](C* part) {
      for (int v = 0; v < V; ++v) part[task * V + v] = sum[v];
    };
    for (int64_t at = begin; at < end; at += kAhead) {
      Pack<T, V> ahead[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (at + j < end) {
          ahead[j] = *reinterpret_cast<const Pack<T, V>*>(from + positions[at + j] * rows.src_row);
        }
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (at + j >= end) continue;
        const K next = keys[at + j];
        if (next != key) {
          cut ? keep(before) : S::store(sum, target + rows.places.at(static_cast<int64_t>(key)));
          key = next;
          cut = false;
          S::load(sum, target + rows.places.at(static_cast<int64_t>(key)));
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const C term = core::wrapping_mul(convert<C>(ahead[j].at[v]), factor);
          sum[v] = core::kernels::scattered(rows.mode, sum[v], term);
        }
      }
    }
    const bool goes_on = end < rows.n && keys[end] == key;
    if (cut) {
      keep(before);
    } else if (goes_on) {
      keep(after);
    } else {
      S::store(sum, target + rows.places.at(static_cast<int64_t>(key)));
    }
  }
}

// The runs that chunks have cut: the thread of the chunk in which one begins adds up its parts.
template <class T, class K, int V>
__global__ void join_chunks_kernel(const K* keys, Rows rows, const Compute<T>* before,
                                   const Compute<T>* after, T* out) {
  using C = Compute<T>;
  const int64_t chunks = (rows.n + kChunk - 1) / kChunk;
  for (int64_t task = global_thread(); task < chunks * rows.columns; task += grid_threads()) {
    const int64_t chunk = task / rows.columns, column = task - chunk * rows.columns;
    const int64_t begin = chunk * kChunk, end = begin + kChunk;
    if (end >= rows.n) continue;
    const K key = keys[end - 1];
    const bool began_before = begin > 0 && keys[begin] == key && keys[begin - 1] == key;
    if (keys[end] != key || began_before) continue;
    C sum[V];
    for (int v = 0; v < V; ++v) sum[v] = after[task * V + v];
    for (int64_t next = end, part = task + rows.columns; next < rows.n && keys[next] == key;
         next += kChunk, part += rows.columns) {
      for (int v = 0; v < V; ++v) {
        sum[v] = core::kernels::scattered(rows.mode, sum[v], before[part * V + v]);
      }
      if (next + kChunk < rows.n && keys[next + kChunk - 1] != key) break;
    }
    const int64_t slab = column / rows.packs, first = (column - slab * rows.packs) * V;
    Sum<T, K, V>::store(
        sum, out + slab * rows.out_slab + first + rows.places.at(static_cast<int64_t>(key)));
  }
}

template <class T, class K, int V>
void add_runs(const char* op, const Array& src, const Pairs& sorted, Rows rows, Scalar alpha,
              const Array& out) {
  using C = Compute<T>;
  rows.packs /= V;
  rows.columns /= V;
  const int64_t chunks = (rows.n + kChunk - 1) / kChunk;
  Array before, after;
  C *before_data = nullptr, *after_data = nullptr;
  if (chunks > 1) {
    before = Array::empty({chunks, rows.columns * V}, kDTypeOf<C>, out.device());
    after = before.empty_like();
    before_data = reinterpret_cast<C*>(before.bytes());
    after_data = reinterpret_cast<C*>(after.bytes());
  }
  const auto* keys = reinterpret_cast<const K*>(sorted.keys.bytes());
  auto* data = reinterpret_cast<T*>(out.bytes());
  const dim3 blocks = blocks_for(chunks * rows.columns);
  launch(op, add_chunks_kernel<T, K, V>, blocks, dim3(kThreads), 0,
         reinterpret_cast<const T*>(src.bytes()), keys,
         reinterpret_cast<const int64_t*>(sorted.values.bytes()), rows, alpha.to<C>(), data,
         before_data, after_data);
  if (chunks == 1) return;
  launch(op, join_chunks_kernel<T, K, V>, blocks, dim3(kThreads), 0, keys, rows,
         static_cast<const C*>(before_data), static_cast<const C*>(after_data), data);
}

template <class T>
__global__ void assign_kernel(const T* src, const int64_t* positions, const void* keys, bool wide,
                              int64_t n, Layout places, T* out) {
  const auto key = [&](int64_t i) {
    return wide ? static_cast<const uint64_t*>(keys)[i] : static_cast<const uint32_t*>(keys)[i];
  };
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    if (i + 1 < n && key(i) == key(i + 1)) continue;  // a later one wins
    out[places.at(static_cast<int64_t>(key(i)))] = src[positions[i]];
  }
}

// The entries of `index` [lines.., length], in order, sorted by their place in lines of `size`.
Pairs sorted_places(const char* op, const Array& index, int64_t length, int64_t size) {
  const int64_t n = index.numel(), places = n / length * size;
  const bool wide = places > int64_t{1} << 32;
  const Array keys = Array::empty({n}, wide ? kInt64 : kInt32, index.device());
  const Array positions = Array::empty({n}, kInt64, index.device());
  const auto start = [&]<class K>(TypeTag<K>) {
    launch(op, key_kernel<K>, blocks_for(n), dim3(kThreads), 0,
           reinterpret_cast<const int64_t*>(index.bytes()), Layout(index), n, length, size,
           reinterpret_cast<K*>(keys.bytes()), reinterpret_cast<int64_t*>(positions.bytes()));
  };
  wide ? start(TypeTag<uint64_t>{}) : start(TypeTag<uint32_t>{});
  const auto last = static_cast<uint64_t>(places - 1);
  return sort_pairs(keys, positions, std::max(1, static_cast<int>(std::bit_width(last))));
}

template <class T, int V>
void add_sorted(const char* op, const Array& src, const Pairs& sorted, const Rows& rows,
                Scalar alpha, const Array& out) {
  if (sorted.keys.dtype() == kInt64) {
    add_runs<T, uint64_t, V>(op, src, sorted, rows, alpha, out);
  } else {
    add_runs<T, uint32_t, V>(op, src, sorted, rows, alpha, out);
  }
}

void scatter_sorted(ScatterMode mode, const Array& src, int dim, const Array& index,
                    const Array& out) {
  const int64_t size = out.ndim() > 0 ? out.shape()[dim] : 1;
  const int64_t length = index.ndim() > 0 ? index.shape()[dim] : 1;
  const Array values = lines_along(src, dim).contiguous();
  const Pairs sorted = sorted_places("scatter", lines_along(index, dim), length, size);
  // A line of out for each of the index, which may have fewer.
  Shape shape = index.shape();
  if (out.ndim() > 0) shape[dim] = size;
  const Array target(out.storage_ref(), shape, out.strides(), out.offset(), out.dtype());
  const Layout places(lines_along(target, dim));
  const int64_t n = index.numel();
  if (mode == ScatterMode::assign) {
    return dispatch_word(out.dtype(), [&]<class W>(TypeTag<W>) {
      launch("scatter", assign_kernel<W>, blocks_for(n), dim3(kThreads), 0,
             reinterpret_cast<const W*>(values.bytes()),
             reinterpret_cast<const int64_t*>(sorted.values.bytes()),
             static_cast<const void*>(sorted.keys.bytes()), sorted.keys.dtype() == kInt64, n,
             places, reinterpret_cast<W*>(out.bytes()));
    });
  }
  const Rows rows{n, 1, 1, 0, 1, 0, places, mode};
  dispatch(out.dtype(),
           [&]<class T>(TypeTag<T>) { add_sorted<T, 1>("scatter", values, sorted, rows, 1, out); });
}

}  // namespace

void CudaBackend::run(const call::Scatter& call) {
  if (call.index.numel() == 0) return;
  const DeviceGuard guard(index_);
  // src may be larger than index: what lies beyond is not used.
  const Array used(call.src.storage_ref(), call.index.shape(), call.src.strides(),
                   call.src.offset(), call.src.dtype());
  const int64_t length = call.index.ndim() > 0 ? call.index.shape()[call.dim] : 1;
  // Sums of halves that one thread walks would be rounded after each term.
  const bool rounds = call.mode == ScatterMode::add && is_half(call.out.dtype());
  if (length > kShort || (rounds && length > 1)) {
    return scatter_sorted(call.mode, used, call.dim, call.index, call.out);
  }
  const int64_t count = call.index.numel() / length;
  const Line indices(lines_along(call.index, call.dim)), from(lines_along(used, call.dim));
  const Line to(lines_along(fixed_along(call.out, call.dim, call.index.shape()), call.dim));
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    launch("scatter", scatter_lines_kernel<T>, blocks_for(count), dim3(kThreads), 0, call.mode,
           reinterpret_cast<const T*>(used.bytes()), from,
           reinterpret_cast<const int64_t*>(call.index.bytes()), indices,
           reinterpret_cast<T*>(call.out.bytes()), to, stride_along(call.out, call.dim), count,
           length);
  });
}

void CudaBackend::run(const call::IndexAdd& call) {
  if (call.src.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array terms = call.src.contiguous(), target = call.out.contiguous();
  const Slabs parts(call.out.shape(), call.dim);
  const int64_t size = call.out.ndim() > 0 ? call.out.shape()[call.dim] : 1, n = call.index.numel();
  const Pairs sorted = sorted_places(
      "index_add", call.index.ndim() > 0 ? call.index : call.index.unsqueeze(0), n, size);
  const Rows rows{n,
                  parts.outer * parts.inner,
                  parts.inner,
                  n * parts.inner,
                  parts.inner,
                  size * parts.inner,
                  Layout(Shape{size}, Dims{parts.inner})};
  const int64_t row_bytes = parts.inner * item_size(call.out.dtype());
  const bool wide =
      aligned_to(terms.bytes(), 16, row_bytes) && aligned_to(target.bytes(), 16, row_bytes);
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int kPack = 16 / static_cast<int>(sizeof(T));
    // Bytes and bools are not what models are made of: one column at a time.
    if constexpr (sizeof(T) > 1) {
      if (wide) return add_sorted<T, kPack>("index_add", terms, sorted, rows, call.alpha, target);
    }
    add_sorted<T, 1>("index_add", terms, sorted, rows, call.alpha, target);
  });
  if (!call.out.is_contiguous()) run(call::Copy{target, call.out});
}

}  // namespace hero::cuda
