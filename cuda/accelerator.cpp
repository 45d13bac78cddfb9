// The GPUs of this machine as the Accelerator of core/accelerator.h.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <hero/core/accelerator.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/exchange.cuh>
#include <hero/cuda/runtime/streams.cuh>

namespace hero::cuda {

namespace {

struct Found {
  int count = 0;
  std::string reason;
};

// Asked once: a driver does not come while a program runs.
const Found& found() {
  static const Found result = [] {
    Found found;
    const cudaError_t status = cudaGetDeviceCount(&found.count);
    if (status == cudaSuccess && found.count > 0) return found;
    found.count = 0;
    cudaGetLastError();
    const char* said = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
    found.reason = std::string("CUDA finds no GPU it can use (") + said +
                   "); see nvidia-smi for the driver, or use cpu or meta";
    return found;
  }();
  return result;
}

// NaN to whoever reads what nobody wrote, also in blocks that are used again.
bool poisons() {
#if defined(HERO_CUSIM)
  return true;
#else
  static const bool value = [] {
    const char* text = std::getenv("HERO_CUDA_POISON");
    return text && std::strcmp(text, "1") == 0;
  }();
  return value;
#endif
}

// One stream of the thread for each direction, beside the current one of each device.
class CopyStreamGuard final : public core::StreamGuard {
 public:
  CopyStreamGuard(core::CopyDirection direction, int index)
      : scope_(behind_current(direction, index)) {}

 private:
  static Stream behind_current(core::CopyDirection direction, int index) {
    thread_local std::map<std::pair<int, core::CopyDirection>, Stream> streams;
    const Device device = {DeviceType::cuda, static_cast<int8_t>(index)};
    auto found = streams.find({index, direction});
    if (found == streams.end()) found = streams.emplace(std::pair(index, direction), device).first;
    found->second.wait(Stream::current(device));
    return found->second;
  }
  StreamScope scope_;
};

class CudaAccelerator final : public Accelerator {
 public:
  int device_count() override { return found().count; }
  std::string reason() override { return found().reason; }
  Backend& backend(int index) override {
    const std::lock_guard lock(mutex_);
    while (static_cast<int>(backends_.size()) <= index) {
      backends_.emplace_back(static_cast<int>(backends_.size()));
    }
    return backends_[static_cast<size_t>(index)];
  }
  void* allocate(int64_t bytes, int index) override {
    const DeviceGuard guard(index);
    const cudaStream_t stream = current_stream();
    void* block = device_memory(index).allocate(bytes, stream);
    if (poisons())
      check_cuda(cudaMemsetAsync(block, 0xFF, static_cast<size_t>(bytes), stream), "allocate");
    return block;
  }
  // Who frees on another stream than the block's may have used it there.
  void deallocate(void* block, int64_t, int index) noexcept override {
    device_memory(index).deallocate(block, known_stream(index));
  }
  core::HostMemory& host_memory() override { return pinned_memory(); }
  Exchange& exchange(int index) override { return exchange_of(index); }
  Array pinned(const Shape& shape, DType dtype) override { return cuda::pinned(shape, dtype); }
  void copy_async(const Array& src, const Array& dst) override {
    cuda::copy_async(src, dst);
    const Array& there = dst.device().type == DeviceType::cuda ? dst : src;
    record_use(there, Stream::current(there.device()));
  }
  std::unique_ptr<core::StreamGuard> copy_stream(core::CopyDirection direction,
                                                 int index) override {
    return std::make_unique<CopyStreamGuard>(direction, index);
  }
  std::vector<std::shared_ptr<DeviceEvent>> record_events() override {
    int used = 0;
    {
      const std::lock_guard lock(mutex_);
      used = static_cast<int>(backends_.size());
    }
    std::vector<std::shared_ptr<DeviceEvent>> events;
    for (int index = 0; index < used; ++index) {
      if (known_stream(index)) events.push_back(exchange_of(index).record_event());
    }
    return events;
  }

 private:
  std::mutex mutex_;
  std::deque<CudaBackend> backends_;  // never move
};

}  // namespace

bool is_built() { return true; }
int device_count() { return found().count; }
std::string reason() { return found().reason; }

void synchronize(Device device) {
  accelerator("synchronize", device);
  const DeviceGuard guard(device.index);
  wait_for_stream("synchronize");
}

DeviceProperties device_properties(Device device) {
  accelerator("device_properties", device);
  cudaDeviceProp said;
  check_cuda(cudaGetDeviceProperties(&said, device.index), "device_properties");
  std::string uuid;
  for (const char byte : said.uuid.bytes) {
    for (const int shift : {4, 0}) uuid += "0123456789abcdef"[(byte >> shift) & 15];
  }
  return {said.name,
          static_cast<int64_t>(said.totalGlobalMem),
          said.multiProcessorCount,
          said.major,
          said.minor,
          uuid};
}

MemoryStats memory_stats(Device device) {
  accelerator("memory_stats", device);
  return device_memory(device.index).stats();
}

void reset_peak_memory(Device device) {
  accelerator("reset_peak_memory", device);
  device_memory(device.index).reset_peaks();
}

void empty_cache() { empty_device_caches(); }

}  // namespace hero::cuda

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
int hero_cuda_registered = [] {
  static auto* const cuda = new hero::cuda::CudaAccelerator;  // outlives all arrays
  hero::core::set_accelerator(cuda);
  return 1;
}();
}
