// Streams and events as values. Streams of the driver are never destroyed: they return to a pool of
// their device, so that cached memory that belongs to a stream is used again.
#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/streams.cuh>

namespace hero::cuda {

namespace {

constexpr int kMaxDevices = 64;

// Streams take turns in the device's hardware queues, in the order in which they were made: those
// in use share the fewest where the first ones made are used again.
struct FreeStreams {
  std::mutex mutex;
  std::map<size_t, cudaStream_t> free[2][kMaxDevices];  // [priority][device], by number
  struct Made {
    int device;
    size_t number;  // in the order in which they were made
  };
  std::unordered_map<cudaStream_t, Made> all;
};
FreeStreams& free_streams() {
  static auto* value = new FreeStreams;
  return *value;
}

cudaStream_t take_stream(int index, Stream::Priority priority) {
  {
    FreeStreams& s = free_streams();
    const std::lock_guard lock(s.mutex);
    auto& free = s.free[static_cast<int>(priority)][index];
    if (!free.empty()) return free.extract(free.begin()).mapped();
  }
  const DeviceGuard guard(index);
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priority == Stream::Priority::high ? greatest : least),
             "stream");
  FreeStreams& s = free_streams();
  const std::lock_guard lock(s.mutex);
  s.all[stream] = {index, s.all.size()};
  return stream;
}

void give_stream(int index, Stream::Priority priority, cudaStream_t stream) {
  FreeStreams& s = free_streams();
  const std::lock_guard lock(s.mutex);
  s.free[static_cast<int>(priority)][index].emplace(s.all.at(stream).number, stream);
}

}  // namespace

struct Stream::State {
  State(int device, Priority p) : index(device), priority(p), stream(take_stream(device, p)) {}
  ~State() { give_stream(index, priority, stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  int index;
  Priority priority;
  cudaStream_t stream;
};

struct Event::State {
  explicit State(bool with_timing) : timing(with_timing) {}
  ~State() {
    if (event) cudaEventDestroy(event);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  bool timing;
  int index = -1;
  cudaEvent_t event = nullptr;  // made when first recorded, on the stream's device
};

namespace {

// What is current, by device. The raw handles stand apart: they can still be read when a thread
// ends and frees its last arrays.
thread_local cudaStream_t current_handles[kMaxDevices] = {};

}  // namespace

namespace detail {

struct ThreadStreams {
  std::shared_ptr<void> current[kMaxDevices];
  ~ThreadStreams() {
    for (cudaStream_t& handle : current_handles) handle = nullptr;
  }
};
ThreadStreams& thread_streams() {
  thread_local ThreadStreams value;
  return value;
}

}  // namespace detail

cudaStream_t known_stream(int index) { return current_handles[index]; }

int stream_device(cudaStream_t stream) {
  {
    FreeStreams& s = free_streams();
    const std::lock_guard lock(s.mutex);
    const auto found = s.all.find(stream);
    if (found != s.all.end()) return found->second.device;
  }
  int current = 0;
  cudaGetDevice(&current);
  return current;
}

int streams_in_use(int index) {
  FreeStreams& s = free_streams();
  const std::lock_guard lock(s.mutex);
  const auto made = std::count_if(s.all.begin(), s.all.end(), [index](const auto& each) {
    return each.second.device == index;
  });
  return static_cast<int>(made) - static_cast<int>(s.free[0][index].size()) -
         static_cast<int>(s.free[1][index].size());
}

cudaStream_t current_stream() {
  int index = 0;
  check_cuda(cudaGetDevice(&index), "stream");
  const cudaStream_t known = current_handles[index];
  if (known) [[likely]]
    return known;
  return static_cast<cudaStream_t>(
      Stream::current({DeviceType::cuda, static_cast<int8_t>(index)}).handle());
}

Stream::Stream(Device device, Priority priority) {
  core::accelerator("stream", device);
  check(device.index < kMaxDevices, "stream: ", device, " is beyond the ", kMaxDevices,
        " devices that this library counts");
  state_ = std::make_shared<State>(device.index, priority);
}

Stream Stream::current(Device device) {
  const int index{device.index};
  auto& current = detail::thread_streams().current[static_cast<size_t>(index)];
  if (!current) {
    const Stream own(device);
    current = own.state_;
    current_handles[device.index] = own.state_->stream;
  }
  return Stream(std::static_pointer_cast<State>(current));
}

Device Stream::device() const { return {DeviceType::cuda, static_cast<int8_t>(state_->index)}; }
void* Stream::handle() const { return state_->stream; }

Event Stream::record() const {
  Event event;
  event.record(*this);
  return event;
}

void Stream::wait(const Event& event) const {
  if (!event.state_->event) return;
  const DeviceGuard guard(state_->index);
  check_cuda(cudaStreamWaitEvent(state_->stream, event.state_->event, 0), "wait");
}

void Stream::wait(const Stream& other) const {
  if (!(*this == other)) wait(other.record());
}

void Stream::synchronize() const {
  const StreamScope scope(*this);
  const DeviceGuard guard(state_->index);
  wait_for_stream("synchronize");
}

bool Stream::query() const {
  const cudaError_t status = cudaStreamQuery(state_->stream);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_cuda(status, "query");
  after_wait(state_->index);
  return true;
}

Event::Event(bool timing) : state_(std::make_shared<State>(timing)) {}

void Event::record(const Stream& stream) {
  const int index = stream.device().index;
  const DeviceGuard guard(index);
  if (state_->event && state_->index != index) {
    cudaEventDestroy(state_->event);
    state_->event = nullptr;
  }
  if (!state_->event) {
    const unsigned flags = state_->timing ? cudaEventDefault : cudaEventDisableTiming;
    check_cuda(cudaEventCreateWithFlags(&state_->event, flags), "event");
    state_->index = index;
  }
  check_cuda(cudaEventRecord(state_->event, static_cast<cudaStream_t>(stream.handle())), "event");
}

bool Event::query() const {
  if (!state_->event) return true;
  const cudaError_t status = cudaEventQuery(state_->event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_cuda(status, "query");
  after_wait(state_->index);
  return true;
}

void Event::synchronize() const {
  if (!state_->event) return;
  before_wait(state_->index);
  check_cuda(cudaEventSynchronize(state_->event), "synchronize");
  after_wait(state_->index);
}

double Event::elapsed_ms(const Event& start) const {
  check(state_->timing && start.state_->timing,
        "elapsed_ms: an event without timing; make both with Event(true)");
  check(state_->event && start.state_->event, "elapsed_ms: an event was not recorded");
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, start.state_->event, state_->event), "elapsed_ms");
  return ms;
}

StreamScope::StreamScope(const Stream& stream)
    : stream_(stream), previous_(Stream::current(stream.device())) {
  const int index = stream_.state_->index;
  detail::thread_streams().current[index] = stream_.state_;
  current_handles[index] = stream_.state_->stream;
}

StreamScope::~StreamScope() {
  const int index = previous_.state_->index;
  detail::thread_streams().current[index] = previous_.state_;
  current_handles[index] = previous_.state_->stream;
}

void record_use(const Array& array, const Stream& stream) {
  check(array.device() == stream.device(), "record_use: the array lies on ", array.device(),
        ", the stream is of ", stream.device());
  if (array.storage().data()) {
    device_memory(stream.device().index).record_use(array.storage().data(), stream.handle());
  }
}

}  // namespace hero::cuda
