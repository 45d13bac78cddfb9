// Fills any array with one value.
#include <cstring>

#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/walk.cuh>
#include <hero/cuda/runtime/graph.cuh>

namespace hero::cuda {

namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) fill_vectors_kernel(T* out, int64_t n, T value) {
  constexpr int kVector = kVectorBytes / sizeof(T);
  T values[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) values[j] = value;
  for (int64_t e = global_thread() * kVector; e < n; e += grid_threads() * kVector) {
    write_vector(out + e, n - e, values);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) fill_kernel(T* out, const Walk walk, T value) {
  const auto step = static_cast<uint32_t>(grid_threads());
  for (auto i = static_cast<uint32_t>(global_thread()); i < walk.count; i += step) {
    int64_t places[1];
    walk.at(i, places);
    out[places[0]] = value;
  }
}

template <class T>
void fill_as(const Array& out, T value) {
  Joint joint(out);
  joint.join();
  T* first = reinterpret_cast<T*>(out.bytes());
  const bool dense = joint.ndim() == 1 && joint.inner_stride(0) == 1;
  const T zero{};
  if (dense && std::memcmp(&value, &zero, sizeof(T)) == 0) {
    const auto bytes = static_cast<size_t>(out.nbytes());
    return check_cuda(cudaMemsetAsync(first, 0, bytes, current_stream()), "fill");
  }
  if (dense && aligned(first, kVectorBytes)) {
    constexpr int64_t kVector = kVectorBytes / sizeof(T);
    launch("fill", fill_vectors_kernel<T>, loop_blocks((out.numel() + kVector - 1) / kVector),
           dim3(kThreads), 0, first, out.numel(), value);
    return;
  }
  joint.pieces(kMaxPositions, [&](const Joint& piece) {
    const Walk walk = piece.walk();
    launch("fill", fill_kernel<T>, loop_blocks(walk.count), dim3(kThreads), 0,
           first + piece.start(0), walk, value);
  });
}

}  // namespace

void CudaBackend::run(const call::Fill& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  note_value("fill", call.value.to<double>());
  dispatch(call.out.dtype(), [&]<class T>(TypeTag<T>) { fill_as(call.out, call.value.to<T>()); });
}

}  // namespace hero::cuda
