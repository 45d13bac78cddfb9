#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include <dlfcn.h>

#include <hero/core/threads/thread_state.h>
#include <hero/cuda/index/index_report.cuh>
#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/per_device.cuh>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

namespace {

// The last operations that this thread launched, for errors that come later than their cause.
struct Launched {
  static constexpr int kKept = 8;
  std::array<const char*, kKept> names{};
  int64_t count = 0;

  std::string text() const {
    std::string line;
    for (int64_t i = std::max<int64_t>(0, count - kKept); i < count; ++i) {
      if (!line.empty()) line += ", ";
      line += names[static_cast<size_t>(i % kKept)];
    }
    return count > kKept ? "... " + line : line;
  }
};
thread_local Launched launched;

thread_local int own_device = -1;  // none
[[maybe_unused]] const core::ThreadSlot<int> kOwnDeviceSlot([] { return own_device; },
                                                            [](int index) {
                                                              if (index == own_device) return;
                                                              own_device = index;
                                                              if (index >= 0) cudaSetDevice(index);
                                                            });
std::atomic<int> first_used = -1;  // the first device that was made current

// Whether this process has a context on a device.
bool has_context(int index) {
#if defined(HERO_CUSIM)
  return cusim::has_context(index);
#else
  // of the driver, since the runtime would make one to answer
  using State = int (*)(int device, unsigned* flags, int* active);
  static std::atomic<State> known = nullptr;
  State state = known;
  if (state == nullptr) {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver != nullptr) {
      state = reinterpret_cast<State>(::dlsym(driver, "cuDevicePrimaryCtxGetState"));
    }
    known = state;
  }
  unsigned flags = 0;
  int active = 0;
  return state == nullptr || state(index, &flags, &active) != 0 || active != 0;
#endif
}

void note_used(int index) {
  int none = -1;
  first_used.compare_exchange_strong(none, index);
}

std::atomic<BeforeWait> told_before_wait = nullptr;
std::atomic<AfterWait> told_after_wait = nullptr;

// Errors of kernels: 700 to 799 (an illegal address, a failed assertion ...).
bool left_by_a_kernel(cudaError_t status) { return static_cast<int>(status) / 100 == 7; }
// 900 to 908: the stream was capturing.
bool of_a_capture(cudaError_t status) {
  return static_cast<int>(status) >= 900 && static_cast<int>(status) < 909;
}

}  // namespace

void fail_cuda(cudaError_t status, const char* op) {
  cudaGetLastError();  // the error is ours now
  if (left_by_a_kernel(status) && !synchronous() && launched.count > 0) {
    fail(op, ": CUDA reports: ", cudaGetErrorString(status), "; it is an error of one of ",
         launched.text(), "; HERO_CUDA_SYNC=1 names the very operation");
  }
  if (of_a_capture(status)) {
    fail(op, ": CUDA reports: ", cudaGetErrorString(status),
         "; a captured step can do no such thing, keep it out of the step");
  }
  fail(op, ": CUDA reports: ", cudaGetErrorString(status));
}

void use_device(int index) {
  check_cuda(cudaSetDevice(index), "device");
  own_device = index;
  note_used(index);
}

int device_in_use() {
  int current = 0;
  check_cuda(cudaGetDevice(&current), "device");
  const int first = first_used;
  return first < 0 || has_context(current) ? current : first;
}

DeviceGuard::DeviceGuard(int index) {
  check_cuda(cudaGetDevice(&previous_), "device");
  if (previous_ == index) return;
  check_cuda(cudaSetDevice(index), "device");
  note_used(index);
  changed_ = true;
}

DeviceGuard::DeviceGuard(int index, std::nothrow_t) noexcept {
  changed_ = cudaGetDevice(&previous_) == cudaSuccess && previous_ != index &&
             cudaSetDevice(index) == cudaSuccess;
}

DeviceGuard::~DeviceGuard() {
  if (changed_ && has_context(previous_)) cudaSetDevice(previous_);
}

bool synchronous() {
  static const bool value = [] {
    const char* text = std::getenv("HERO_CUDA_SYNC");
    return text && std::strcmp(text, "1") == 0;
  }();
  return value;
}

void note_launch(const char* op) {
  launched.names[static_cast<size_t>(launched.count++ % Launched::kKept)] = op;
}

void allow_shared(const char* op, const void* kernel, size_t bytes) {
  // a cache of each thread needs no lock; threads that share a kernel ask once each
  thread_local std::map<std::pair<const void*, int>, size_t> allowed;
  size_t& known = allowed[{kernel, current_cuda(op).index}];
  if (bytes <= known) [[likely]]
    return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             op);
  known = bytes;
}

void set_before_wait(BeforeWait tell) { told_before_wait = tell; }
void before_wait(int device) {
  if (const BeforeWait tell = told_before_wait) tell(device);
}

void set_after_wait(AfterWait tell) { told_after_wait = tell; }
void after_wait(int device) {
  if (const AfterWait tell = told_after_wait) tell(device);
}

void wait_for_stream(const char* op) {
  refuse_capture(op, "the host waits for values of the GPU here (item(), to(kCpu), printing)");
  before_wait(current_cuda(op).index);
  check_cuda(cudaStreamSynchronize(current_stream()), op);
  after_wait(current_cuda(op).index);
  launched.count = 0;
  throw_reported_index(current_cuda(op).index);
}

bool& capturing() {
  thread_local bool value = false;
  return value;
}

void refuse_capture(const char* op, const char* what) {
  if (!capturing()) [[likely]]
    return;
  fail(op, ": ", what, ", which a captured step cannot do; keep it out of the step");
}

}  // namespace hero::cuda
