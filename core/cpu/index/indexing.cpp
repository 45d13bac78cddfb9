// Reading and writing through indices. Writers go line by line along the indexed dimension, each
// line in index order on one thread: no atomics, and the same bits for any number of threads.
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/kernels/scattered.h>
#include <hero/core/kernels/wrapping.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// x with `dim` pinned to its first position, to be walked beside an index of shape `shape`.
Array pin(const Array& x, int dim, const Shape& shape) {
  Dims strides = x.strides();
  if (dim < strides.size()) strides[dim] = 0;
  return Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

int64_t stride_of(const Array& x, int dim) { return dim < x.ndim() ? x.strides()[dim] : 0; }

// A list of positions along `dim` as an index of the full shape, without copying it.
Array spread(const Array& index, int dim, const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 0);
  if (dim < shape.size()) strides[dim] = index.ndim() > 0 ? index.strides()[0] : 0;
  return Array(index.storage_ref(), shape, strides, index.offset(), index.dtype());
}

// The list that an index repeats along all other dimensions; undefined if it is no such index.
Array list_of(const Array& index, int dim) {
  for (int i = 0; i < index.ndim(); ++i) {
    if (i != dim && index.strides()[i] != 0 && index.shape()[i] != 1) return {};
  }
  return Array(index.storage_ref(), {index.shape()[dim]}, {index.strides()[dim]}, index.offset(),
               index.dtype());
}

// Each element once that an index repeats along whole dimensions.
Array without_repeats(const Array& index) {
  Shape shape = index.shape();
  for (int i = 0; i < index.ndim(); ++i) {
    if (index.strides()[i] == 0) shape[i] = 1;
  }
  return Array(index.storage_ref(), shape, index.strides(), index.offset(), index.dtype());
}

// The row-major position in `shape` of what stands at row-major position `at` of its first elements
// of shape `part`.
int64_t position_in(const Shape& shape, const Shape& part, int64_t at) {
  int64_t position = 0, step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    position += at % part[i] * step;
    at /= part[i];
    step *= shape[i];
  }
  return position;
}

const int64_t* as_indices(const std::byte* block) {
  return reinterpret_cast<const int64_t*>(block);
}

// T is any type of the elements' width.
template <class T>
void gather_as(const Array& x, int dim, const Array& index, const Array& out) {
  const BlockReader indices(index, out.shape(), kInt64);
  const Walk walk(pin(x, dim, out.shape()), out.shape());
  const BlockWriter writer(out, x.dtype());
  const auto* data = reinterpret_cast<const T*>(x.bytes());
  const int64_t jump = stride_of(x, dim);
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    Scratch index_scratch, scratch;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      const int64_t* from = as_indices(indices.read(at, count, index_scratch.bytes));
      auto* target = reinterpret_cast<T*>(writer.target(at, scratch.bytes));
      walk.runs(at, count, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
        const T* const line = data + element;
        if (stride == 0 && jump == 1) {  // one line, whose elements are neighbours
          for (int64_t i = 0; i < run; ++i) target[done + i] = line[from[done + i]];
          return;
        }
        for (int64_t i = 0; i < run; ++i) {
          target[done + i] = line[i * stride + from[done + i] * jump];
        }
      });
      writer.commit(at, count, scratch.bytes);
    }
  });
}

template <class T>
void put(ScatterMode mode, T& target, Compute<T> value) {
  if (mode == ScatterMode::assign) {
    target = convert<T>(value);
  } else {
    target = convert<T>(kernels::scattered(mode, convert<Compute<T>>(target), value));
  }
}

// Scatters alpha * src; alpha only counts for ScatterMode::add.
template <class T>
void scatter_as(ScatterMode mode, const Array& src, int dim, const Array& index, Scalar alpha,
                const Array& out) {
  using C = Compute<T>;
  const RowReader<C> values(src, dim);
  const RowReader<int64_t> indices(index, dim);
  const Array lines = rows_along(pin(out, dim, index.shape()), dim).select(-1, 0);
  const Walk starts(lines, lines.shape());
  auto* data = reinterpret_cast<T*>(out.bytes());
  const int64_t jump = stride_of(out, dim), n = values.length();
  const C factor = alpha.to<C>();
  parallel_for(values.count(), values.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<C> value_buffer(values.buffer_size());
    const Workspace<int64_t> index_buffer(indices.buffer_size());
    for (int64_t at = begin; at < end; at += values.group()) {
      const int64_t count = std::min(values.group(), end - at);
      const C* value = values.read(at, count, value_buffer.data());
      const int64_t* to = indices.read(at, count, index_buffer.data());
      starts.runs(at, count, [&](int64_t element, int64_t step, int64_t run, int64_t done) {
        for (int64_t r = 0; r < run; ++r) {
          T* line = data + element + r * step;
          const int64_t row = (done + r) * n;
          for (int64_t i = 0; i < n; ++i) {
            put(mode, line[to[row + i] * jump], wrapping_mul(value[row + i], factor));
          }
        }
      });
    }
  });
}

// [outer, size, inner] of an array whose inner part is dense.
struct Slabs {
  bool dense = false;
  int64_t outer = 1, inner = 1;
};

Slabs slabs(const Array& x, int dim) {
  Slabs result;
  result.dense = x.is_contiguous() && x.ndim() > 0;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < dim) result.outer *= x.shape()[i];
    if (i > dim) result.inner *= x.shape()[i];
  }
  return result;
}

// Shorter pieces than this are not worth a call or a loop of their own.
constexpr int64_t kPiece = 16;

// Whole slices as runs of bytes.
void select_slabs(const Array& x, int dim, const Array& index, const Array& out) {
  const Slabs parts = slabs(out, dim);
  const int64_t n = out.shape()[dim], size = x.shape()[dim];
  const auto bytes = static_cast<size_t>(parts.inner * item_size(x.dtype()));
  const int64_t* from = index.data<int64_t>();
  const std::byte* data = x.bytes();
  std::byte* target = out.bytes();
  const int64_t grain = std::max<int64_t>(1, kGrain / parts.inner);
  parallel_for(parts.outer * n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const auto source = static_cast<size_t>(p / n * size + from[p % n]);
      std::memcpy(target + static_cast<size_t>(p) * bytes, data + source * bytes, bytes);
    }
  });
}

// The reverse, where the last one of several slices for one place stays.
void put_slabs(const Array& src, int dim, const Array& index, const Array& out) {
  const Slabs parts = slabs(src, dim);
  const int64_t n = src.shape()[dim], size = out.shape()[dim];
  const int64_t bytes = parts.inner * item_size(src.dtype());
  const int64_t* to = index.data<int64_t>();
  parallel_for(parts.outer, std::max<int64_t>(1, kGrain / (n * parts.inner)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin * n; i < end * n; ++i) {
                   std::memcpy(out.bytes() + (i / n * size + to[i % n]) * bytes,
                               src.bytes() + i * bytes, static_cast<size_t>(bytes));
                 }
               });
}

// Whole slices, cut into pieces of columns that threads work on alone.
template <class T, ScatterMode kMode>
void scatter_slabs(const Array& src, int dim, const Array& index, Scalar alpha, const Array& out) {
  using C = Compute<T>;
  constexpr int64_t kColumns = 256;
  const Slabs parts = slabs(src, dim);
  const int64_t n = src.shape()[dim], size = out.shape()[dim], inner = parts.inner;
  const int64_t pieces = (inner + kColumns - 1) / kColumns;
  const int64_t work = n * std::min(inner, kColumns);
  const int64_t* to = index.data<int64_t>();
  const T* from = src.data<T>();
  T* data = out.data<T>();
  const C factor = alpha.to<C>();
  parallel_for(parts.outer * pieces, std::max<int64_t>(1, kGrain / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t o = task / pieces, first = task % pieces * kColumns;
                   const int64_t width = std::min(kColumns, inner - first);
                   for (int64_t i = 0; i < n; ++i) {
                     T* row = data + (o * size + to[i]) * inner + first;
                     const T* add = from + (o * n + i) * inner + first;
#pragma GCC ivdep
                     for (int64_t c = 0; c < width; ++c) {
                       const C term = wrapping_mul(convert<C>(add[c]), factor);
                       row[c] = convert<T>(kernels::scattered(kMode, convert<C>(row[c]), term));
                     }
                   }
                 }
               });
}

// The list of an index that selects whole slices of `whole`, of which `part`, contiguous and of the
// index's shape, has long enough pieces; undefined if elements are to be taken one by one.
Array slices_of(const Array& index, int dim, const Array& whole, const Array& part) {
  if (index.ndim() == 0 || index.ndim() != whole.ndim() || whole.dtype() != part.dtype()) return {};
  for (int i = 0; i < index.ndim(); ++i) {
    if (i != dim && index.shape()[i] != whole.shape()[i]) return {};
  }
  const Slabs parts = slabs(part, dim);
  if (!parts.dense || parts.inner < kPiece || !whole.is_contiguous()) return {};
  const Array list = list_of(index, dim);
  return list.defined() && list.is_contiguous() ? list : Array();
}

// Whether sums of several terms would be rounded after each: those of halves are made in float32.
bool sums_are_rounded(const Array& out, const Array& index) {
  return is_half(out.dtype()) && index.numel() > 1;
}

// The row-major position of the first index outside [0, size), or -1.
int64_t first_outside(const Array& index, int64_t size) {
  constexpr int64_t kLong = 65536;
  const int64_t* values = index.data<int64_t>();
  const auto bound = static_cast<uint64_t>(size);
  const auto outside = [=](int64_t i) { return static_cast<uint64_t>(values[i]) >= bound; };
  std::atomic<bool> found{false};
  parallel_for(index.numel(), kLong, [&](int64_t begin, int64_t end) {
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= outside(i);
    if (any) found = true;
  });
  if (!found) return -1;
  int64_t at = 0;
  while (!outside(at)) ++at;
  return at;
}

// index_add of halves in float32: where the index is short, of the slices alone that it names.
void add_widened(CpuBackend& cpu, const Array& src, int dim, const Array& index, Scalar alpha,
                 const Array& out) {
  const Array dense = index.contiguous(), terms = src.to(kFloat32);
  const int64_t n = dense.numel();
  const int64_t* list = dense.data<int64_t>();
  if (out.ndim() == 0 || n >= out.shape()[dim]) {
    const Array wide = out.to(kFloat32);
    cpu.index_add(terms, dim, dense, alpha, wide);
    return cpu.copy(wide, out);
  }
  std::vector<int64_t> named(list, list + n), places;
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  for (int64_t i = 0; i < n; ++i) {
    places.push_back(std::lower_bound(named.begin(), named.end(), list[i]) - named.begin());
  }
  Shape shape = out.shape();
  shape[dim] = static_cast<int64_t>(named.size());
  const Array rows = Array::from(named, {shape[dim]}), some = Array::empty(shape, out.dtype());
  cpu.index_select(out, dim, rows, some);
  const Array wide = some.to(kFloat32);
  cpu.index_add(terms, dim, Array::from(places, {n}), alpha, wide);
  cpu.copy(wide, some);
  cpu.scatter(ScatterMode::assign, some, dim, spread(rows, dim, shape), out);
}

}  // namespace

Array CpuBackend::checked_index(const char* op, const Array& index, int64_t size) {
  const Array wide = index.to(kInt64);
  if (index.numel() == 0) return wide;
  // Read in place where possible; a strided index is read through a copy.
  const Array dense = without_repeats(wide).contiguous();
  const int64_t at = first_outside(dense, size);
  if (at >= 0) {
    fail_index(op, dense.data<int64_t>()[at], position_in(index.shape(), dense.shape(), at),
               index.shape(), size);
  }
  return wide;
}

void CpuBackend::gather(const Array& x, int dim, const Array& index, const Array& out) {
  if (out.numel() == 0) return;
  if (const Array list = slices_of(index, dim, x, out); list.defined()) {
    return select_slabs(x, dim, list, out);
  }
  switch (item_size(x.dtype())) {
    case 1:
      return gather_as<uint8_t>(x, dim, index, out);
    case 2:
      return gather_as<uint16_t>(x, dim, index, out);
    case 4:
      return gather_as<uint32_t>(x, dim, index, out);
    default:
      return gather_as<uint64_t>(x, dim, index, out);
  }
}

void CpuBackend::scatter(ScatterMode mode, const Array& src, int dim, const Array& index,
                         const Array& out) {
  if (index.numel() == 0) return;
  if (mode == ScatterMode::add && sums_are_rounded(out, index)) {
    const Array wide = out.to(kFloat32);
    scatter(mode, src, dim, index, wide);
    return copy(wide, out);
  }
  // src may be larger than index: what lies beyond is not used.
  const Array used(src.storage_ref(), index.shape(), src.strides(), src.offset(), src.dtype());
  const Array list = slices_of(index, dim, out, used);
  if (list.defined() && mode == ScatterMode::assign) return put_slabs(used, dim, list, out);
  dispatch(out.dtype(), [&]<class T>(TypeTag<T>) {
    if (list.defined() && mode == ScatterMode::add) {
      return scatter_slabs<T, ScatterMode::add>(used, dim, list, 1, out);
    }
    // Of float alone: loops for all dtypes would make programs 40 kB larger.
    if constexpr (std::is_same_v<T, float>) {
      if (list.defined() && mode == ScatterMode::maximum) {
        return scatter_slabs<T, ScatterMode::maximum>(used, dim, list, 1, out);
      }
      if (list.defined() && mode == ScatterMode::minimum) {
        return scatter_slabs<T, ScatterMode::minimum>(used, dim, list, 1, out);
      }
    }
    scatter_as<T>(mode, used, dim, index, 1, out);
  });
}

void CpuBackend::index_select(const Array& x, int dim, const Array& index, const Array& out) {
  if (out.numel() == 0) return;
  const Slabs parts = slabs(out, dim);
  if (parts.dense && x.is_contiguous() && index.is_contiguous() && x.dtype() == out.dtype() &&
      parts.inner >= kPiece) {
    return select_slabs(x, dim, index, out);
  }
  gather(x, dim, spread(index, dim, out.shape()), out);
}

void CpuBackend::index_add(const Array& src, int dim, const Array& index, Scalar alpha,
                           const Array& out) {
  if (src.numel() == 0) return;
  if (sums_are_rounded(out, index)) return add_widened(*this, src, dim, index, alpha, out);
  const Slabs parts = slabs(src, dim);
  const bool dense = parts.dense && out.is_contiguous() && index.is_contiguous() &&
                     src.dtype() == out.dtype() && parts.inner >= kPiece;
  dispatch(out.dtype(), [&]<class T>(TypeTag<T>) {
    if (dense) return scatter_slabs<T, ScatterMode::add>(src, dim, index, alpha, out);
    scatter_as<T>(ScatterMode::add, src, dim, spread(index, dim, src.shape()), alpha, out);
  });
}

}  // namespace hero::core::cpu
