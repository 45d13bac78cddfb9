#pragma once
// How kernels are started, and the small tools they share. The same .cu files are compiled by nvcc
// and, for tests on a machine without a GPU, by the host's compiler over tests/cusim, which runs
// blocks on the CPU; what differs between the two stands here and nowhere else.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <hero/cuda/runtime/runtime.cuh>
#include <hero/cuda/runtime/times.cuh>

namespace hero::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
/// Threads of a block unless a kernel has a reason for another number.
inline constexpr int kThreads = 256;

/// Launches kernel(args...) on the calling thread's current stream. Throws an Error with the
/// operation's name if the launch fails.
template <class... Params, class... Args>
void launch(const char* op, void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
            Args&&... args) {
  if (shared > kSharedByDefault) allow_shared(op, reinterpret_cast<const void*>(kernel), shared);
  const Launching launching(op);
#if defined(HERO_CUSIM)
  cusim::launch(op, grid, block, shared, current_stream(),
                [=]() { kernel(static_cast<Params>(args)...); });
#else
  std::tuple<std::decay_t<Params>...> values(static_cast<Params>(args)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value..., nullptr};
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared,
                         current_stream());
      },
      values);
#endif
  check_cuda(cudaPeekAtLastError(), op);
  if (synchronous() && !capturing()) check_cuda(cudaStreamSynchronize(current_stream()), op);
}

/// The number of blocks of `threads` threads for `n` items, one item for each thread; at most the
/// largest first dimension of a grid.
inline dim3 blocks_for(int64_t n, int64_t threads = kThreads) {
  return dim3(static_cast<unsigned>(std::clamp<int64_t>((n + threads - 1) / threads, 1, 1 << 30)));
}

#if defined(__CUDACC__) || defined(HERO_CUSIM)

/// The index of this thread among all threads of the grid, along x.
__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
/// The number of threads of the grid, along x.
__device__ inline int64_t grid_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// The dynamic shared memory that launch() was given as `shared`, aligned to 16 bytes.
template <class T>
__device__ T* dynamic_shared() {
#if defined(HERO_CUSIM)
  return reinterpret_cast<T*>(cusim::dynamic_shared());
#else
  extern __shared__ __align__(16) unsigned char hero_dynamic_shared[];
  return reinterpret_cast<T*>(hero_dynamic_shared);
#endif
}

#endif

}  // namespace hero::cuda
