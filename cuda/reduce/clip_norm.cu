// Gradients scaled by a factor that the device itself has computed.
#include <vector>

#include <hero/core/kernels/clip_norm.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/tensor_table.cuh>
#include <hero/cuda/runtime/graph.cuh>

namespace hero::cuda {

namespace {

// Vectors that each thread of a block scales.
constexpr int kVectorsAThread = 4;
constexpr int64_t kShareBytes = kThreads * kVectorsAThread * kVectorBytes;

template <class S>
inline constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(S));
// Elements of a block.
template <class S>
inline constexpr int64_t kShare = kShareBytes / static_cast<int64_t>(sizeof(S));

template <class S>
__global__ void __launch_bounds__(kThreads)
    clip_norm_kernel(const TensorTable table, const double* norm, double max_norm) {
  using T = ComputeOf<S>;
  const double wide = core::clip_factor(max_norm, *norm);
  if (wide >= 1.0) return;
  const T factor = static_cast<T>(wide);
  const int tensor = table.shares.find(blockIdx.x);
  const int64_t n = table.sizes[tensor];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - table.shares.first[tensor]) * kShare<S>;
  S* x = reinterpret_cast<S*>(table.data[tensor]);
#pragma unroll 1
  for (int i = 0; i < kVectorsAThread; ++i) {
    const int64_t e = begin + (i * kThreads + static_cast<int>(threadIdx.x)) * kVector<S>;
    if (e >= n) return;
    T values[kVector<S>];
    read_vector(x + e, n - e, values, table.vectors[tensor]);
#pragma unroll
    for (T& value : values) value = value * factor;
    write_vector(x + e, n - e, values, table.vectors[tensor]);
  }
}

}  // namespace

void CudaBackend::run(const call::ClipNorm& call) {
  const DeviceGuard guard(index_);
  note_value("clip_grad_norm", call.max_norm);
  std::vector<Array> dense;
  for (const Array& x : call.xs) dense.push_back(x.contiguous());
  const auto* value = reinterpret_cast<const double*>(call.norm.bytes());
  const auto share = []<class S>(TypeTag<S>) { return kShare<S>; };
  each_table(dense, share, [&]<class S>(TypeTag<S>, const TensorTable& table) {
    launch("clip_grad_norm", clip_norm_kernel<S>, dim3(table.shares.all()), dim3(kThreads), 0,
           table, value, call.max_norm);
  });
  for (size_t i = 0; i < call.xs.size(); ++i) {
    if (!call.xs[i].is_contiguous()) run(call::Copy{dense[i], call.xs[i]});
  }
}

}  // namespace hero::cuda
