// Page-locked host memory, by a caching allocator as for devices, since locking pages is slow. A
// freed block is reused only after the copies that use it.
#include <atomic>

#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>
#include <hero/core/memory/allocator.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

namespace {

class PinnedUpstream final : public CudaUpstream {
 public:
  PinnedUpstream() : CudaUpstream(-1) {}

  void* allocate(int64_t bytes) override {
    const DeviceGuard guard(device_in_use());
    const InCallGate gate(-1);
    const Uncaptured uncaptured;
    void* segment = nullptr;
    const cudaError_t status = cudaMallocHost(&segment, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check_cuda(status, "pinned");
    const auto first = reinterpret_cast<uintptr_t>(segment);
    uintptr_t seen = low;
    while (first < seen && !low.compare_exchange_weak(seen, first)) {
    }
    seen = high;
    const uintptr_t last = first + static_cast<uintptr_t>(bytes);
    while (last > seen && !high.compare_exchange_weak(seen, last)) {
    }
    return segment;
  }
  std::string describe() override { return "the host, page-locked"; }

  // All segments that ever were lie between these: most blocks of the process do not.
  std::atomic<uintptr_t> low = ~uintptr_t{0}, high = 0;

 private:
  void give_back(void* segment) noexcept override {
    const Uncaptured uncaptured;
    cudaFreeHost(segment);
  }
};

// The blocks belong to no stream: each copy says that it uses one.
class PinnedMemory final : public core::HostMemory {
 public:
  PinnedMemory() : cache_(upstream_, caches()) {}

  void* allocate(int64_t bytes) override { return cache_.allocate(bytes, nullptr); }
  bool deallocate(void* block) noexcept override {
    if (!near(block) || !cache_.in_use(block)) return false;
    if (!keep_for_graph(block)) cache_.deallocate(block);
    return true;
  }
  bool holds(void* block) const { return near(block) && cache_.in_use(block); }
  CachingAllocator& cache() { return cache_; }

 private:
  bool near(void* block) const {
    const auto at = reinterpret_cast<uintptr_t>(block);
    return at >= upstream_.low && at < upstream_.high;
  }
  PinnedUpstream upstream_;
  CachingAllocator cache_;
};

PinnedMemory& memory() {
  static auto* value = new PinnedMemory;  // outlives all arrays
  return *value;
}

}  // namespace

core::HostMemory& pinned_memory() { return memory(); }

void free_pinned(void* block) noexcept { memory().cache().deallocate(block); }

Array pinned(const Shape& shape, DType dtype) {
  core::accelerator("pinned", {DeviceType::cuda, 0});
  core::Ref<core::Storage> storage =
      core::Storage::create_released(shape.numel() * item_size(dtype), kCpu);
  {
    const core::HostMemoryScope scope(memory());
    storage->refill();
  }
  return Array(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

bool is_pinned(const Array& array) {
  return array.device() == kCpu && array.defined() && array.storage().data() != nullptr &&
         memory().holds(array.storage().data());
}

Array pin_memory(const Array& array) {
  check(array.device() == kCpu, "pin_memory: the array lies on ", array.device(),
        "; only the host's memory can be page-locked");
  if (is_pinned(array)) return array;
  Array copy = pinned(array.shape(), array.dtype());
  core::cpu_backend().run(core::call::Copy{array, copy});
  return copy;
}

Event copy_async(const Array& src, const Array& dst) {
  const bool to_device = dst.device().type == DeviceType::cuda;
  const Array& host = to_device ? src : dst;
  const Array& there = to_device ? dst : src;
  check(is_pinned(host) && there.device().type == DeviceType::cuda, "copy_async: from ",
        src.device(), " to ", dst.device(),
        "; one side must be on cuda and the other page-locked, see pin_memory()");
  check(src.shape() == dst.shape() && src.dtype() == dst.dtype() && src.is_contiguous() &&
            dst.is_contiguous(),
        "copy_async: from ", src.dtype(), " ", src.shape(), " to ", dst.dtype(), " ", dst.shape(),
        "; both must be contiguous and of one shape and dtype");
  const DeviceGuard guard(there.device().index);
  const Stream stream = Stream::current(there.device());
  if (src.numel() > 0) {
    memory().cache().record_use(host.storage().data(), stream.handle());
    check_cuda(cudaMemcpyAsync(dst.bytes(), src.bytes(), static_cast<size_t>(src.nbytes()),
                               to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                               static_cast<cudaStream_t>(stream.handle())),
               "copy_async");
  }
  return capturing() ? Event() : stream.record();
}

}  // namespace hero::cuda
