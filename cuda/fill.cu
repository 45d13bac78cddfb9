// Fills any array with one value.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/graph.cuh>
#include <hero/cuda/launch.cuh>
#include <hero/cuda/layout.cuh>

namespace hero::cuda {

namespace {

template <class T>
__global__ void fill_kernel(T* out, Layout layout, int64_t n, T value) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) out[layout.at(i)] = value;
}

}  // namespace

void CudaBackend::fill(const Array& out, Scalar value) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(index_);
  note_value("fill", value.to<double>());
  dispatch(out.dtype(), [&]<class T>(TypeTag<T>) {
    launch("fill", fill_kernel<T>, blocks_for(out.numel()), dim3(kThreads), 0,
           reinterpret_cast<T*>(out.bytes()), Layout(out), out.numel(), value.to<T>());
  });
}

}  // namespace hero::cuda
