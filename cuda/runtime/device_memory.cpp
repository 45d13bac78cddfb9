#include <cstdlib>
#include <cstring>

#include <hero/core/ledger.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/cuda/runtime/streams.cuh>

namespace hero::cuda {

namespace {

class DeviceMemory final : public CudaUpstream {
 public:
  explicit DeviceMemory(int index) : CudaUpstream(index), index_(index) {}

  void* allocate(int64_t bytes) override {
    const DeviceGuard guard(index_);
    const InCallGate gate(index_);
    const Uncaptured uncaptured;
    void* segment = nullptr;
    const cudaError_t status = cudaMalloc(&segment, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check_cuda(status, "allocate");
    return segment;
  }
  std::string describe() override {
    const DeviceGuard guard(index_);
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return "cuda:" + std::to_string(index_) + " (" + bytes_text(static_cast<int64_t>(free)) +
           " free of " + bytes_text(static_cast<int64_t>(total)) + ")";
  }

 private:
  void give_back(void* segment) noexcept override {
    const DeviceGuard guard(index_, std::nothrow);
    const Uncaptured uncaptured;
    cudaFree(segment);
  }
  const int index_;
};

struct Memory {
  explicit Memory(int index) : device(index), allocator(device, caches()) {}
  DeviceMemory device;
  CachingAllocator allocator;
};

// Never freed: arrays with static lifetime may come back after everything else is gone.
struct Memories {
  std::mutex mutex;
  std::vector<std::unique_ptr<Memory>> of_device;
};
Memories& memories() {
  static auto* value = new Memories;
  return *value;
}

}  // namespace

bool CudaUpstream::free(void* segment) noexcept {
  const InFreeGate here(gate_);
  if (here) give_back(segment);
  return static_cast<bool>(here);
}
bool CudaUpstream::before_free() noexcept { return cuda::before_free(gate_, FreeWait::open); }

EventId CudaUpstream::record(StreamId stream) noexcept {
  const auto handle = static_cast<cudaStream_t>(stream);
  const DeviceGuard guard(stream_device(handle), std::nothrow);
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) return nullptr;
  if (cudaEventRecord(event, handle) == cudaSuccess) return event;
  cudaEventDestroy(event);
  return nullptr;
}
// After an error of a kernel nothing will ever pass; the error itself is reported elsewhere.
bool CudaUpstream::passed(EventId event) noexcept {
  const Uncaptured uncaptured;
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (status != cudaSuccess) cudaGetLastError();
  return status != cudaErrorNotReady;
}
void CudaUpstream::wait(EventId event) noexcept {
  if (!InFreeGate(gate_)) return;  // what is asked for from now on lies behind the event
  const Uncaptured uncaptured;
  cudaEventSynchronize(static_cast<cudaEvent_t>(event));
}
void CudaUpstream::drop(EventId event) noexcept {
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

// Address sanitizer, which sees the blocks of tests/cusim, must see every one come and go.
bool caches() {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  const char* text = std::getenv("HERO_CUDA_CACHE");
  return !text || std::strcmp(text, "0") != 0;
#endif
}

CachingAllocator& device_memory(int index) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  for (int next = static_cast<int>(all.of_device.size()); next <= index; ++next) {
    all.of_device.push_back(std::make_unique<Memory>(next));
  }
  return all.of_device[static_cast<size_t>(index)]->allocator;
}

void empty_device_caches() {
  // Before any lock is held, which another rank may need to get to its call. What other ranks wait
  // for may be the next call of this one: memory of their devices does not wait.
  if (!before_free(-1, FreeWait::own_calls)) return;
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  for (const auto& memory : all.of_device) memory->allocator.empty_cache();
}

}  // namespace hero::cuda
