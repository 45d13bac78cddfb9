// Reading through indices. Values are only moved, as words of their size.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/index/index_lines.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

template <class W>
__global__ void gather_kernel(const W* x, Layout lines, int64_t jump, const int64_t* index,
                              Layout index_layout, W* out, Layout out_layout, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    out[out_layout.at(i)] = x[lines.at(i) + index[index_layout.at(i)] * jump];
  }
}

// Whole slices x[o][index[i]] of `inner` words; U is wide enough for all positions.
template <class W, class U>
__global__ void select_kernel(const W* x, int64_t size, const int64_t* index, U count, U inner,
                              W* out, U n) {
  const U step = static_cast<U>(grid_threads());
  for (U i = static_cast<U>(global_thread()); i < n; i += step) {
    const U row = i / inner, word = i - row * inner, outer = row / count;
    const int64_t from = outer * size + index[row - outer * count];
    out[i] = x[from * inner + word];
    if (n - i <= step) break;  // i + step may not fit U
  }
}

template <class W>
void select_words(const Array& x, int dim, const Array& index, const Array& out) {
  const int64_t inner =
      Slabs(out.shape(), dim).inner * item_size(out.dtype()) / static_cast<int64_t>(sizeof(W));
  const int64_t n = out.nbytes() / static_cast<int64_t>(sizeof(W));
  const auto start = [&]<class U>(TypeTag<U>) {
    launch("index_select", select_kernel<W, U>, blocks_for(n), dim3(kThreads), 0,
           reinterpret_cast<const W*>(x.bytes()), x.shape()[dim],
           reinterpret_cast<const int64_t*>(index.bytes()), static_cast<U>(index.numel()),
           static_cast<U>(inner), reinterpret_cast<W*>(out.bytes()), static_cast<U>(n));
  };
  // with room for the threads of a grid, whose number is a U too
  n < (int64_t{1} << 32) - kThreads ? start(TypeTag<uint32_t>{}) : start(TypeTag<uint64_t>{});
}

}  // namespace

void CudaBackend::run(const call::Gather& call) {
  const int64_t n = call.out.numel();
  if (n == 0) return;
  const DeviceGuard guard(index_);
  dispatch_word(call.out.dtype(), [&]<class W>(TypeTag<W>) {
    launch("gather", gather_kernel<W>, blocks_for(n), dim3(kThreads), 0,
           reinterpret_cast<const W*>(call.x.bytes()),
           Layout(fixed_along(call.x, call.dim, call.out.shape())), stride_along(call.x, call.dim),
           reinterpret_cast<const int64_t*>(call.index.bytes()), Layout(call.index),
           reinterpret_cast<W*>(call.out.bytes()), Layout(call.out), n);
  });
}

void CudaBackend::run(const call::IndexSelect& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  if (call.x.ndim() > 0 && call.x.is_contiguous() && call.out.is_contiguous() &&
      call.index.is_contiguous()) {
    const int64_t row_bytes = Slabs(call.out.shape(), call.dim).inner * item_size(call.out.dtype());
    if (aligned_to(call.x.bytes(), 16, row_bytes) && aligned_to(call.out.bytes(), 16, row_bytes)) {
      return select_words<uint4>(call.x, call.dim, call.index, call.out);
    }
    return dispatch_word(call.out.dtype(), [&]<class W>(TypeTag<W>) {
      select_words<W>(call.x, call.dim, call.index, call.out);
    });
  }
  // The list of positions as an index of the full shape, without copying it.
  Dims strides = Dims::filled(call.out.ndim(), 0);
  if (call.out.ndim() > 0) strides[call.dim] = call.index.ndim() > 0 ? call.index.strides()[0] : 0;
  run(call::Gather{
      call.x, call.dim,
      Array(call.index.storage_ref(), call.out.shape(), strides, call.index.offset(), kInt64),
      call.out});
}

}  // namespace hero::cuda
