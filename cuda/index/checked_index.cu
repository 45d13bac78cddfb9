// Checking indices on the device, without making the host wait for the result.
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <hero/core/functions/indexing.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/layout.cuh>
#include <hero/cuda/index/index_report.cuh>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

constexpr unsigned kNone = 0, kBeingWritten = 1, kWritten = 2;

// What is checked, and the error if it is one.
struct IndexError {
  const char* op;
  int64_t size;  // of the dimension
  int ndim;      // of the index
  int64_t shape[kMaxDims];
  int64_t value, at;
};

struct Report {
  unsigned state;
  IndexError error;
};

// The device's report in pinned memory, which it and the host reach by one address; made by the
// first index and never freed, since a kernel may come late.
std::atomic<Report*>& report_of(int device) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<std::atomic<Report*>>> reports;
  const std::lock_guard lock(mutex);
  while (static_cast<int>(reports.size()) <= device) {
    reports.push_back(std::make_unique<std::atomic<Report*>>(nullptr));
  }
  return *reports[static_cast<size_t>(device)];
}

// Without a lock, since it may wait for other ranks (cuda/runtime/free_gate.h); of several threads
// one keeps its own.
Report* make_report(int device) {
  std::atomic<Report*>& place = report_of(device);
  if (Report* const made = place) return made;
  void* const block = pinned_memory().allocate(sizeof(Report));
  Report* made = nullptr;
  if (place.compare_exchange_strong(made, new (block) Report{})) return place;
  free_pinned(block);
  return made;
}

__device__ void write_down(Report* report, const IndexError& error, int64_t value, int64_t at) {
  if (atomicCAS(&report->state, kNone, kBeingWritten) != kNone) return;
  report->error = error;
  report->error.value = value;
  report->error.at = at;
  __threadfence_system();
  *static_cast<volatile unsigned*>(&report->state) = kWritten;
}

template <class T>
__global__ void checked_index_kernel(const T* index, Layout layout, int64_t n, IndexError error,
                                     Report* report, int64_t* out) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const int64_t value = index[layout.at(i)];
    const bool inside = static_cast<uint64_t>(value) < static_cast<uint64_t>(error.size);
    out[i] = inside ? value : 0;
    if (!inside) write_down(report, error, value, i);
  }
}

}  // namespace

void throw_reported_index(int device) {
  Report* const report = report_of(device);
  if (report == nullptr) return;
  const std::atomic_ref<unsigned> state(report->state);
  if (state.load(std::memory_order_acquire) != kWritten) return;
  const IndexError error = report->error;
  state.store(kNone, std::memory_order_release);
  Shape shape;
  for (int d = 0; d < error.ndim; ++d) shape.push_back(error.shape[d]);
  core::fail_index(error.op, error.value, error.at, shape, error.size);
}

Array CudaBackend::run(const call::CheckedIndex& call) {
  const DeviceGuard guard(index_);
  throw_reported_index(index_);
  const Array out = Array::empty(call.index.shape(), kInt64, call.index.device());
  if (call.index.numel() == 0) return out;
  IndexError error{call.op, call.size, call.index.ndim(), {}, 0, 0};
  for (int d = 0; d < call.index.ndim(); ++d) error.shape[d] = call.index.shape()[d];
  Report* const report = make_report(index_);
  const auto start = [&]<class T>(TypeTag<T>) {
    launch(call.op, checked_index_kernel<T>, blocks_for(call.index.numel()), dim3(kThreads), 0,
           reinterpret_cast<const T*>(call.index.bytes()), Layout(call.index), call.index.numel(),
           error, report, reinterpret_cast<int64_t*>(out.bytes()));
  };
  call.index.dtype() == kInt64 ? start(TypeTag<int64_t>{}) : start(TypeTag<int32_t>{});
  return out;
}

}  // namespace hero::cuda
