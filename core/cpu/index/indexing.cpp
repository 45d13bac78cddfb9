// Reading through indices.
#include <algorithm>
#include <atomic>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/index/slabs.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

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

// T is any type of the elements' width.
template <class T>
void gather_as(const Array& x, int dim, const Array& index, const Array& out) {
  const BlockReader indices(index, out.shape(), kInt64);
  const BroadcastWalk walk(pin(x, dim, out.shape()), out.shape());
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

}  // namespace

Array BasicKernels::run(const call::CheckedIndex& call) {
  const Array wide = call.index.to(kInt64);
  if (call.index.numel() == 0) return wide;
  // Read in place where possible; a strided index is read through a copy.
  const Array dense = without_repeats(wide).contiguous();
  const int64_t at = first_outside(dense, call.size);
  if (at >= 0) {
    fail_index(call.op, dense.data<int64_t>()[at],
               position_in(call.index.shape(), dense.shape(), at), call.index.shape(), call.size);
  }
  return wide;
}

void BasicKernels::run(const call::Gather& call) {
  if (call.out.numel() == 0) return;
  if (const Array list = slices_of(call.index, call.dim, call.x, call.out); list.defined()) {
    return select_slabs(call.x, call.dim, list, call.out);
  }
  switch (item_size(call.x.dtype())) {
    case 1:
      return gather_as<uint8_t>(call.x, call.dim, call.index, call.out);
    case 2:
      return gather_as<uint16_t>(call.x, call.dim, call.index, call.out);
    case 4:
      return gather_as<uint32_t>(call.x, call.dim, call.index, call.out);
    default:
      return gather_as<uint64_t>(call.x, call.dim, call.index, call.out);
  }
}

void BasicKernels::run(const call::IndexSelect& call) {
  if (call.out.numel() == 0) return;
  const Slabs parts = slabs(call.out, call.dim);
  if (parts.dense && call.x.is_contiguous() && call.index.is_contiguous() &&
      call.x.dtype() == call.out.dtype() && parts.inner >= kPiece) {
    return select_slabs(call.x, call.dim, call.index, call.out);
  }
  run(call::Gather{call.x, call.dim, spread(call.index, call.dim, call.out.shape()), call.out});
}

}  // namespace hero::core::cpu
