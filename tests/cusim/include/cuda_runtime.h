#pragma once
// A CUDA runtime on the CPU, for tests on machines without a GPU: the part of the runtime's
// interface that cuda/ uses, and what device code needs. The files of cuda/ are compiled as C++
// with this header in place of the toolkit's. A block's threads are fibres of the thread that
// launches; they change places at barriers and warp operations only. Device memory is host memory.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define HERO_CUSIM 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __restrict__ __restrict
/// A block's memory: blocks run one at a time on a thread.
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Vectors of the toolkit, with its alignments.
#define CUSIM_VECTORS(T, name)                                  \
  struct alignas(2 * sizeof(T)) name##2 {                       \
    T x, y;                                                     \
  };                                                            \
  struct alignas(sizeof(T) >= 8 ? 16 : 4 * sizeof(T)) name##4 { \
    T x, y, z, w;                                               \
  };
CUSIM_VECTORS(float, float)
CUSIM_VECTORS(int, int)
CUSIM_VECTORS(unsigned, uint)
#undef CUSIM_VECTORS
struct alignas(16) double2 {
  double x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

// \name The runtime's types and calls.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorCapturedEvent = 907,
  cudaErrorGraphExecUpdateFailure = 910,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cusim_stream;
struct cusim_event;
struct cusim_graph;
struct cusim_graph_node;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
using cudaStream_t = cusim_stream*;
using cudaEvent_t = cusim_event*;
using cudaGraph_t = cusim_graph*;
using cudaGraphExec_t = cusim_graph*;
using cudaGraphNode_t = cusim_graph_node*;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
struct cudaGraphExecUpdateResultInfo {
  int result;
};
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int multiProcessorCount, major, minor;
};
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
#define cudaStreamLegacy reinterpret_cast<cudaStream_t>(0x1)
#define cudaStreamPerThread reinterpret_cast<cudaStream_t>(0x2)
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
const char* cudaGetErrorString(cudaError_t status);
const char* cudaGetErrorName(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaMalloc(void** block, size_t bytes);
cudaError_t cudaFree(void* block);
cudaError_t cudaMallocHost(void** block, size_t bytes);
cudaError_t cudaFreeHost(void* block);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

namespace cusim {

/// Devices that the runtime pretends to have; 4 unless a test says otherwise.
void set_device_count(int count);
/// Lets the clock that events read go on, in a piece of work that of its stream alone; it stands
/// still otherwise, so that no test depends on the machine's speed.
void advance(double milliseconds);
/// Bytes of each device's memory from now on; 80 GiB at first.
void set_memory(size_t bytes);
/// The devices on which this process has a context: those that were current where the runtime was
/// called for more than to ask which there are. None of them any more.
std::vector<int> contexts();
bool has_context(int device);
void forget_contexts();
/// Blocks of device and page-locked memory that are there now.
size_t live_blocks();

/// Work is done when it is asked for (false) or only when something waits for it (true), so that
/// a wait that is missing shows as wrong numbers. At first false; true with HERO_CUSIM_DEFERRED=1.
void set_deferred(bool deferred);
bool is_deferred();
/// How often kernels were allowed more shared memory than they have by themselves.
int64_t attributes_set();
/// Makes the next piece of work of that name fail as a kernel does, for all that follows (null:
/// the device is well again).
void break_next(const char* op, cudaError_t status = cudaErrorIllegalAddress);

/// Gives work to a stream; `op` is a literal.
void enqueue(const char* op, cudaStream_t stream, std::function<void()> work);

/// Runs `thread` once for every thread of every block, on `stream`. What would hang or be
/// undefined on a GPU (a barrier that some threads never reach, lanes that disagree about a mask, a
/// value from a lane that is not there) ends the program with a line that begins with the
/// operation's name.
void launch(const char* op, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            std::function<void()> thread);

void* dynamic_shared();

/// What a thread of a running block knows of itself.
struct Place {
  dim3 grid, block;
  dim3 block_index, thread_index;
  int number = -1;  // among the threads of its block
};
/// That of the block that runs on this thread of the host. Kernels ask for it with every index, so
/// it is a variable: a function that is called for it took more time than most kernels.
extern constinit thread_local Place here;
inline const Place& place() { return here; }

void sync_threads();
/// Hands 64 bits to the warp and returns those of lane `from`; every lane of `mask` comes.
uint64_t exchange(unsigned mask, uint64_t value, int from);
/// All lanes' 64 bits, until this lane's next operation.
const uint64_t* gather(unsigned mask, uint64_t value);
/// A thread's copies in the background (no source: zeros): done when waited for, and no sooner, so
/// that who reads too early reads what was there before.
void copy_async(void* to, const void* from, int bytes);
void commit_copies();
void wait_copies(int left);
/// The lanes of `mask` whose value is not 0.
unsigned ballot(unsigned mask, bool value);
inline int lane() { return here.number % 32; }

template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cusim

// \name What device code sees.
#define gridDim (cusim::place().grid)
#define blockDim (cusim::place().block)
#define blockIdx (cusim::place().block_index)
#define threadIdx (cusim::place().thread_index)
inline constexpr int warpSize = 32;

inline void __syncthreads() { cusim::sync_threads(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cusim::exchange(mask, 0, cusim::lane()); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int base = cusim::lane() / width * width;
  return cusim::shuffle(mask, value, base + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const int lane = cusim::lane(), from = lane ^ bits;
  return cusim::shuffle(mask, value, from / width <= lane / width ? from : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = cusim::lane(), from = lane + static_cast<int>(by);
  return cusim::shuffle(mask, value, from / width == lane / width ? from : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = cusim::lane(), from = lane - static_cast<int>(by);
  return cusim::shuffle(mask, value, from >= lane / width * width ? from : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool value) { return cusim::ballot(mask, value); }
inline bool __any_sync(unsigned mask, bool value) { return cusim::ballot(mask, value) != 0; }
inline bool __all_sync(unsigned mask, bool value) { return cusim::ballot(mask, value) == mask; }
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  unsigned most = 0;
  const uint64_t* values = cusim::gather(mask, value);
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) != 0 && values[lane] > most) most = static_cast<unsigned>(values[lane]);
  }
  return most;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
/// Integers only: a float atomic's order is chance, and this library has none.
template <class T>
T atomicAdd(T* to, T value) {
  static_assert(!std::is_floating_point_v<T>);
  const T before = *to;
  *to = static_cast<T>(before + value);
  return before;
}
template <class T>
T atomicCAS(T* to, T expected, T value) {
  const T before = *to;
  if (before == expected) *to = value;
  return before;
}
