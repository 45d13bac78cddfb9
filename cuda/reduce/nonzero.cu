// Positions of non-zero elements: every block counts those of its chunk, a scan turns the counts
// into offsets, and every block writes its positions in order.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/layout.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

constexpr int kEach = 8;  // neighbouring elements of a thread
constexpr int64_t kBlockElements = kThreads * kEach;
constexpr int kScanThreads = 1024;

// The sum of the values of all threads before this one; `total` gets that of all.
__device__ int64_t sum_before(int64_t value, int64_t* total) {
  __shared__ int64_t warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  int64_t sum = value;
  for (int step = 1; step < kWarp; step *= 2) {
    const int64_t other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += other;
  }
  __syncthreads();  // the caller may have read `warps` of the call before
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  int64_t before = 0, all = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    if (w == warp) before = all;
    all += warps[w];
  }
  *total = all;
  return before + sum - value;
}

template <class T>
__device__ bool is_set(T x) {
  if constexpr (core::kIsHalf<T>) {
    return static_cast<float>(x) != 0.0f;
  } else {
    return x != T(0);
  }
}

// The flags of this thread's elements as bits.
template <class T>
__device__ unsigned flags_of(const T* x, const Layout& layout, int64_t n) {
  const int64_t first = global_thread() * kEach;
  unsigned flags = 0;
  for (int j = 0; j < kEach; ++j) {
    if (first + j < n && is_set(x[layout.at(first + j)])) flags |= 1u << j;
  }
  return flags;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_kernel(const T* x, Layout layout, int64_t n, int64_t* counts) {
  int64_t total = 0;
  sum_before(__popc(flags_of(x, layout, n)), &total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// One block: counts become the sums of those before, and counts[n] that of all.
__global__ void __launch_bounds__(kScanThreads) places_kernel(int64_t* counts, int64_t n) {
  int64_t carried = 0;
  for (int64_t begin = 0; begin < n; begin += kScanThreads) {
    const int64_t i = begin + threadIdx.x;
    int64_t total = 0;
    const int64_t before = sum_before(i < n ? counts[i] : 0, &total);
    if (i < n) counts[i] = carried + before;
    carried += total;
  }
  if (threadIdx.x == 0) counts[n] = carried;
}

struct Sizes {
  int ndim;
  int64_t size[kMaxDims];
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    positions_kernel(const T* x, Layout layout, int64_t n, const int64_t* places, Sizes sizes,
                     int64_t* out) {
  const unsigned flags = flags_of(x, layout, n);
  int64_t total = 0;
  int64_t row = places[blockIdx.x] + sum_before(__popc(flags), &total);
  for (int j = 0; j < kEach; ++j) {
    if ((flags >> j & 1u) == 0) continue;
    int64_t position = global_thread() * kEach + j;
    for (int d = sizes.ndim - 1; d >= 0; --d) {
      out[row * sizes.ndim + d] = position % sizes.size[d];
      position /= sizes.size[d];
    }
    ++row;
  }
}

}  // namespace

Array CudaBackend::run(const call::Nonzero& call) {
  const int64_t n = call.x.numel();
  if (n == 0) return Array::empty({0, call.x.ndim()}, kInt64, call.x.device());
  const DeviceGuard guard(index_);
  const dim3 blocks = blocks_for(n, kBlockElements);
  const Array places = Array::empty({int64_t{blocks.x} + 1}, kInt64, call.x.device());
  auto* place = reinterpret_cast<int64_t*>(places.bytes());
  Sizes sizes{call.x.ndim(), {}};
  for (int d = 0; d < call.x.ndim(); ++d) sizes.size[d] = call.x.shape()[d];
  Array result;
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto* data = reinterpret_cast<const T*>(call.x.bytes());
    launch("nonzero", count_kernel<T>, blocks, dim3(kThreads), 0, data, Layout(call.x), n, place);
    launch("nonzero", places_kernel, dim3(1), dim3(kScanThreads), 0, place, int64_t{blocks.x});
    // The one thing that the host must know: how large the result is.
    const auto count = places.select(0, int64_t{blocks.x}).item<int64_t>();
    result = Array::empty({count, call.x.ndim()}, kInt64, call.x.device());
    if (result.numel() == 0) return;
    launch("nonzero", positions_kernel<T>, blocks, dim3(kThreads), 0, data, Layout(call.x), n,
           static_cast<const int64_t*>(place), sizes, reinterpret_cast<int64_t*>(result.bytes()));
  });
  return result;
}

}  // namespace hero::cuda
