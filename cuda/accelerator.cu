// The devices of this machine, as core/accelerator.h asks for them.
#include <deque>
#include <mutex>

#include <hero/core/accelerator.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/cuda_backend.cuh>

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
    void* block = nullptr;
    check_cuda(cudaMalloc(&block, static_cast<size_t>(bytes)), "allocate");
    return block;
  }
  void deallocate(void* block, int64_t, int index) noexcept override {
    const DeviceGuard guard(index);
    cudaFree(block);
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
  check_cuda(cudaStreamSynchronize(current_stream()), "synchronize");
}

}  // namespace hero::cuda

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
extern const int hero_cuda_registered;
const int hero_cuda_registered = [] {
  static hero::cuda::CudaAccelerator cuda;
  hero::core::set_accelerator(&cuda);
  return 1;
}();
}
