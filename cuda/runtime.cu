#include <cstdlib>
#include <cstring>

#include <hero/cuda/runtime.cuh>

namespace hero::cuda {

DeviceGuard::DeviceGuard(int index) {
  check_cuda(cudaGetDevice(&previous_), "device");
  if (previous_ != index) check_cuda(cudaSetDevice(index), "device");
}

DeviceGuard::~DeviceGuard() { cudaSetDevice(previous_); }

cudaStream_t current_stream() { return cudaStreamPerThread; }

bool synchronous() {
  static const bool value = [] {
    const char* text = std::getenv("HERO_CUDA_SYNC");
    return text && std::strcmp(text, "1") == 0;
  }();
  return value;
}

}  // namespace hero::cuda
