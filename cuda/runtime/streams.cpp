// Streams and events as values. Streams of the driver are never destroyed: they return to a pool of
// their device, so that cached memory that belongs to a stream is used again.
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/streams.cuh>

namespace hero::cuda {

namespace {

constexpr int kMaxDevices = 64;

// Streams take turns in the device's hardware queues, in the order in which they were made: the
// n-th one made has queue n modulo their number.
struct Made {
  cudaStream_t stream = nullptr;
  Stream::Priority priority = Stream::Priority::normal;
  bool used = false;
};
struct DeviceStreams {
  std::vector<Made> all;  // in the order in which they were made
  int used = 0;
  int ranks = 0;  // that share the device
};
struct Streams {
  std::mutex mutex, making;  // `making` before `mutex`
  DeviceStreams of[kMaxDevices];
  std::unordered_map<cudaStream_t, std::pair<int, size_t>> places;  // device, and place in `all`
};
Streams& streams() {
  static auto* value = new Streams;
  return *value;
}

constexpr int kMostQueues = 32;  // that a GPU can be told to have

// [note: streams of ranks that share a GPU] What waits in a queue holds up all that was put into
// the queue after it, whatever the stream. Where that is a call of one rank, which waits for
// another rank's call behind it, both wait for ever. So ranks of a process that share a GPU use at
// most as many streams as it has queues, each with a queue to itself.
void reserve_stream(DeviceStreams& here, int index) {
  const int queues = hardware_queues();
  check(here.ranks < 2 || here.used < queues, "stream: the ", here.ranks,
        " ranks of this process on cuda:", index, " would use ", here.used + 1,
        " streams, and the GPU has ", queues, queues == 1 ? " queue" : " queues",
        " for them: calls of two ranks in one queue may wait for each other for ever; ",
        queue_remedy());
  ++here.used;
}

// A stream that is not in use, of the queue with the fewest that are; the oldest of several. Null
// where one must be made.
Made* find_stream(DeviceStreams& here, Stream::Priority priority) {
  const auto queues = static_cast<size_t>(hardware_queues());
  std::vector<int> used(queues, 0);
  for (size_t i = 0; i < here.all.size(); ++i) used[i % queues] += here.all[i].used;
  size_t best = here.all.size();
  for (size_t i = 0; i < here.all.size(); ++i) {
    if (here.all[i].used || here.all[i].priority != priority) continue;
    if (best == here.all.size() || used[i % queues] < used[best % queues]) best = i;
  }
  const bool none = best == here.all.size() || (here.ranks > 1 && used[best % queues] > 0);
  return none ? nullptr : &here.all[best];
}

void make_stream(int index, Stream::Priority priority) {
  const DeviceGuard guard(index);
  const InCallGate gate(index);
  Streams& s = streams();
  const std::lock_guard making(s.making);
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priority == Stream::Priority::high ? greatest : least),
             "stream");
  const std::lock_guard lock(s.mutex);
  s.places[stream] = {index, s.of[index].all.size()};
  s.of[index].all.push_back({stream, priority});
}

cudaStream_t take_stream(int index, Stream::Priority priority) {
  Streams& s = streams();
  DeviceStreams& here = s.of[index];
  std::unique_lock lock(s.mutex);
  reserve_stream(here, index);
  try {
    Made* found = nullptr;
    while ((found = find_stream(here, priority)) == nullptr) {
      lock.unlock();
      make_stream(index, priority);
      lock.lock();
    }
    found->used = true;
    return found->stream;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    --here.used;
    throw;
  }
}

void give_stream(cudaStream_t stream) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  const auto [index, place] = s.places.at(stream);
  s.of[index].all[place].used = false;
  --s.of[index].used;
}

}  // namespace

struct Stream::State {
  State(int device, Priority priority) : index(device), stream(take_stream(device, priority)) {}
  ~State() { give_stream(stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  int index;
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
  std::vector<std::shared_ptr<core::DeviceEvent>> joined_first[kMaxDevices];
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

void join_with_first_stream(int index, std::shared_ptr<core::DeviceEvent> event) {
  detail::thread_streams().joined_first[index].push_back(std::move(event));
}

int stream_device(cudaStream_t stream) {
  {
    Streams& s = streams();
    const std::lock_guard lock(s.mutex);
    const auto found = s.places.find(stream);
    if (found != s.places.end()) return found->second.first;
  }
  int current = 0;
  cudaGetDevice(&current);
  return current;
}

int streams_in_use(int index) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  return s.of[index].used;
}

int hardware_queues() {
  constexpr int kDefault = 8;
  const char* const said = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int queues = said == nullptr ? 0 : std::atoi(said);
  return queues < 1 ? kDefault : std::min(queues, kMostQueues);
}

std::string queue_remedy() {
  return hardware_queues() < kMostQueues
             ? "set CUDA_DEVICE_MAX_CONNECTIONS to " + std::to_string(kMostQueues)
             : "put fewer ranks on it";
}

void count_rank(int index, int by) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  s.of[index].ranks += by;
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
    core::join_all(std::exchange(detail::thread_streams().joined_first[index], {}));
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
