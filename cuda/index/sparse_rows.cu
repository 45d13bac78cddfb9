// Sparse rows times the lines of an array: a thread an element, its terms in order.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

template <class T>
__global__ void sparse_matmul_kernel(const int64_t* starts, const int64_t* places, const T* weights,
                                     const T* x, int64_t size, int64_t count, int64_t inner, T* out,
                                     int64_t n) {
  for (int64_t at = global_thread(); at < n; at += grid_threads()) {
    const int64_t row = at / inner, j = at - row * inner, o = row / count, i = row - o * count;
    const T* from = x + o * size * inner + j;
    T sum = T(0);
    for (int64_t e = starts[i]; e < starts[i + 1]; ++e) sum += weights[e] * from[places[e] * inner];
    out[at] = sum;
  }
}

}  // namespace

void CudaBackend::run(const call::SparseMatmul& call) {
  const int64_t n = call.out.numel();
  if (n == 0) return;
  const DeviceGuard guard(index_);
  int64_t inner = 1;
  for (int i = call.dim + 1; i < call.x.ndim(); ++i) inner *= call.x.shape()[i];
  const auto start = [&]<class T>(TypeTag<T>) {
    launch("sparse_matmul", sparse_matmul_kernel<T>, blocks_for(n), dim3(kThreads), 0,
           reinterpret_cast<const int64_t*>(call.rows.starts.bytes()),
           reinterpret_cast<const int64_t*>(call.rows.places.bytes()),
           reinterpret_cast<const T*>(call.rows.weights.bytes()),
           reinterpret_cast<const T*>(call.x.bytes()), call.x.shape()[call.dim],
           call.out.shape()[call.dim], inner, reinterpret_cast<T*>(call.out.bytes()), n);
  };
  call.out.dtype() == kFloat64 ? start(TypeTag<double>{}) : start(TypeTag<float>{});
}

}  // namespace hero::cuda
