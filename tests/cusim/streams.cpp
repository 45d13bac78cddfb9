// Streams as queues: their work is done at once or, deferred, when something waits for it.
#include "streams.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <cusim_device.h>

namespace cusim {

namespace {

bool deferred = [] {
  const char* text = std::getenv("HERO_CUSIM_DEFERRED");
  return text && std::strcmp(text, "1") == 0;
}();
std::set<cudaStream_t>& streams() {
  static auto* all = new std::set<cudaStream_t>;
  return *all;
}
std::atomic<const char*> breaks_at = nullptr;
std::atomic<cudaError_t> breaks_with = cudaSuccess;
std::atomic<cudaError_t> left_behind = cudaSuccess;
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
thread_local std::set<cusim_graph*> captures;  // begun by this thread

// The stream behind a handle; the runtime's own handles stand for a stream of the thread.
cudaStream_t real(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) {
    return stream;
  }
  thread_local cudaStream_t own = nullptr;
  if (!own) {
    streams().insert(own = new cusim_stream);
    own->device = cusim_stream::kEvery;
  }
  return own;
}

void (*idle)(std::chrono::steady_clock::time_point) = nullptr;
std::atomic<double> clock_ms = 0.0;
uint64_t streams_made = 0;
thread_local cudaStream_t performing = nullptr;  // whose work this thread does
thread_local bool has_asked = false;             // this thread, for any work

void run_until(cudaStream_t stream, uint64_t position) {
  const auto since = std::chrono::steady_clock::now();
  while (!go_on(stream, position)) {
    if (performing != nullptr) {  // other threads must not see the half of it
      std::fprintf(stderr, "cusim: %s waits within the work of a stream\n",
                   stream->queue.front().op);
      std::abort();
    }
    idle(since);
  }
}

// The hardware queues of each device, and how many of its streams have got one.
struct HardwareQueues {
  std::vector<std::shared_ptr<HardwareQueue>> all;
  size_t next = 0;
};
auto& hardware_queues = *new std::map<int, HardwareQueues>;
size_t queue_count = [] {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return static_cast<size_t>(text ? std::atoi(text) : 0);
}();

void take_hardware_queue(cudaStream_t stream) {
  stream->hardware = nullptr;
  if (queue_count == 0 || stream->device == cusim_stream::kEvery) return;
  HardwareQueues& queues = hardware_queues[stream->device];
  queues.all.resize(queue_count);
  auto& queue = queues.all[queues.next++ % queue_count];
  if (!queue) queue = std::make_shared<HardwareQueue>();
  stream->hardware = queue;
}

void push(cudaStream_t stream, Work work) {
  stream->queue.push_back(std::move(work));
  if (!stream->hardware) return;
  auto& [entries, first] = *stream->hardware;
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(first));
  first = 0;
  entries.push_back({stream, stream->asked});
}

// Whether the next piece of the stream's work may begin: all that its hardware queue was asked for
// before has begun.
bool has_turn(cudaStream_t stream) {
  if (!stream->hardware) return true;
  HardwareQueue& queue = *stream->hardware;
  for (size_t i = queue.first; i < queue.entries.size(); ++i) {
    const auto [other, at] = queue.entries[i];
    if (other->done >= at) {
      if (i == queue.first) ++queue.first;
      continue;
    }
    if (other == stream) return true;
    if (go_on(other, at)) continue;
    const bool next = other->done + 1 == at;
    if (!next || !(other->performing || other->queue.front().runs)) return false;
  }
  return true;
}

// Streams may be made while one is waited for.
std::vector<cudaStream_t> all_streams() { return {streams().begin(), streams().end()}; }

// What asks again and again sees an end; a thread that has never asked for work only looks.
void go_on_for_asker(cudaStream_t stream) {
  if (has_asked) go_on(stream, stream->done + 1);
}

}  // namespace

void WorldLock::lock() {
  mutex_.lock();
  ++taken_;
}
void WorldLock::unlock() {
  --taken_;
  mutex_.unlock();
}
void WorldLock::pause(std::chrono::microseconds time) {
  const int taken = taken_;
  for (int i = 0; i < taken; ++i) unlock();
  std::this_thread::sleep_for(time);
  for (int i = 0; i < taken; ++i) lock();
}

WorldLock& world() {
  static auto* lock = new WorldLock;
  return *lock;
}

void advance(double milliseconds) {
  if (performing == nullptr) {
    clock_ms.fetch_add(milliseconds);
  } else {
    performing->busy_ms += milliseconds;
  }
}

bool is_deferred() { return deferred; }
void set_deferred(bool value) {
  const std::lock_guard lock(world());
  if (!value) drain_all();
  deferred = value;
}

void break_next(const char* op, cudaError_t status) {
  breaks_with = status;
  breaks_at = op;
  if (!op) left_behind = cudaSuccess;
}
cudaError_t broken() { return left_behind; }

void perform(cudaStream_t stream, const Work& work) {
  if (left_behind != cudaSuccess) return;
  const char* op = breaks_at;
  if (op && std::strcmp(op, work.op) == 0) {
    breaks_at = nullptr;
    left_behind = breaks_with.load();
    return;
  }
  const cudaStream_t before = std::exchange(performing, stream);
  work.run();
  performing = before;
}

void enqueue(const char* op, cudaStream_t handle, std::function<void()> run) {
  cudaStream_t stream = nullptr;
  has_asked = true;
  {
    const std::lock_guard lock(world());
    stream = real(handle);
    if (cusim_graph* graph = stream->capture) {
      graph->work.push_back({op, std::move(run)});
      ++stream->captured;
      if (stream != graph->origin) graph->unjoined.insert(stream);
      return;
    }
    ++stream->asked;
    if (deferred || !stream->queue.empty()) {
      push(stream, {op, std::move(run)});
      return;
    }
    ++stream->done;
  }
  perform(stream, {op, run});
}

void enqueue_when(const char* op, cudaStream_t stream, std::function<bool()> ready,
                  std::function<void()> run, bool runs) {
  has_asked = true;
  const std::lock_guard lock(world());
  ++stream->asked;
  push(stream, {op, std::move(run), std::move(ready), runs});
}

bool go_on(cudaStream_t stream, uint64_t position) {
  if (stream->done >= position) return true;
  if (stream->going_on) return false;  // what waits for itself
  stream->going_on = true;
  while (stream->done < position && has_turn(stream)) {
    const Work& first = stream->queue.front();
    if (first.ready && left_behind == cudaSuccess && !first.ready()) break;
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->performing = true;
    perform(stream, work);
    stream->performing = false;
    ++stream->done;
  }
  stream->going_on = false;
  return stream->done >= position;
}

bool shares_queues() { return queue_count > 0; }

int set_hardware_queues(int count) {
  const std::lock_guard lock(world());
  drain_all();
  hardware_queues.clear();
  const size_t before = std::exchange(queue_count, static_cast<size_t>(count));
  std::vector<cudaStream_t> all = all_streams();
  std::sort(all.begin(), all.end(), [](auto a, auto b) { return a->number < b->number; });
  for (const cudaStream_t stream : all) take_hardware_queue(stream);
  return static_cast<int>(before);
}

void set_idle(void (*what)(std::chrono::steady_clock::time_point)) { idle = what; }

void drain(cudaStream_t stream) {
  const std::lock_guard lock(world());
  run_until(real(stream), real(stream)->asked);
}

void drain_all() {
  const std::lock_guard lock(world());
  for (const cudaStream_t stream : all_streams()) run_until(stream, stream->asked);
}

void drain_device(int device) {
  const std::lock_guard lock(world());
  for (const cudaStream_t stream : all_streams()) {
    const bool there = stream->device == device || stream->device == cusim_stream::kEvery;
    if (there) run_until(stream, stream->asked);
  }
}

cusim_graph* captured_by(cudaStream_t stream) {
  const std::lock_guard lock(world());
  return real(stream)->capture;
}

bool forbidden_by_capture() {
  const std::lock_guard lock(world());
  if (captures.empty() || mode == cudaStreamCaptureModeRelaxed) return false;
  for (cusim_graph* graph : captures) graph->failed = true;
  return true;
}

}  // namespace cusim

using namespace cusim;

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  use_current();
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  use_current();
  const std::lock_guard lock(world());
  int device = 0;
  cudaGetDevice(&device);
  if (allocates_late()) drain_device(device);
  *stream = new cusim_stream;
  (*stream)->device = device;
  (*stream)->priority = priority;
  (*stream)->number = streams_made++;
  take_hardware_queue(*stream);
  streams().insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(world());
  drain(stream);
  if (HardwareQueue* const queue = stream->hardware.get()) {
    std::erase_if(queue->entries, [&](const auto& entry) { return entry.stream == stream; });
    queue->first = 0;
  }
  streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  use_current();
  const std::lock_guard lock(world());
  if (cusim_graph* graph = captured_by(stream)) {
    graph->failed = true;
    return said(cudaErrorStreamCaptureUnsupported);
  }
  drain(stream);
  return said(broken());
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  use_current();
  const std::lock_guard lock(world());
  const cudaStream_t stream = real(handle);
  if (stream->capture) {
    stream->capture->failed = true;
    return said(cudaErrorStreamCaptureUnsupported);
  }
  if (stream->done == stream->asked) return said(broken());
  go_on_for_asker(stream);
  return said(cudaErrorNotReady);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = captured_by(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  use_current();
  const std::lock_guard lock(world());
  const cudaStream_t stream = real(handle);
  if (!event->stream) return cudaSuccess;
  if (cusim_graph* graph = event->capture) {
    if (stream->capture && stream->capture != graph) return said(cudaErrorInvalidValue);
    stream->capture = graph;
    graph->joined.insert(stream);
    if (event->captured == event->stream->captured) graph->unjoined.erase(event->stream);
    if (stream != graph->origin) graph->unjoined.insert(stream);
    return cudaSuccess;
  }
  if (stream->capture) {  // of work outside of the capture
    stream->capture->failed = true;
    return said(cudaErrorStreamCaptureUnsupported);
  }
  if (event->stream->done >= event->at) return cudaSuccess;
  enqueue_when(
      "wait", stream, [other = event->stream, at = event->at] { return go_on(other, at); }, [] {});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  use_current();
  *event = new cusim_event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  use_current();
  const std::lock_guard lock(world());
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  use_current();
  const std::lock_guard lock(world());
  const cudaStream_t stream = real(handle);
  event->stream = stream;
  event->capture = stream->capture;
  event->captured = stream->captured;
  if (stream->capture) return cudaSuccess;
  event->passed_ms = std::make_shared<double>(0.0);
  enqueue("event", stream,
          [stream, passed = event->passed_ms] { *passed = clock_ms + stream->busy_ms; });
  event->at = stream->asked;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  use_current();
  const std::lock_guard lock(world());
  if (event->capture) return said(cudaErrorCapturedEvent);
  if (forbidden_by_capture()) return said(cudaErrorStreamCaptureUnsupported);
  if (!event->stream || event->stream->done >= event->at) return said(broken());
  go_on_for_asker(event->stream);
  return said(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  use_current();
  const std::lock_guard lock(world());
  if (event->capture) return said(cudaErrorCapturedEvent);
  if (forbidden_by_capture()) return said(cudaErrorStreamCaptureUnsupported);
  if (event->stream) run_until(event->stream, event->at);
  return said(broken());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(world());
  if (begin->stream->done < begin->at || end->stream->done < end->at) {
    return said(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(*end->passed_ms - *begin->passed_ms);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  use_current();
  if (forbidden_by_capture()) return said(cudaErrorStreamCaptureUnsupported);
  drain_all();
  return said(broken());
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* exchanged) {
  std::swap(mode, *exchanged);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  const std::lock_guard lock(world());
  const cudaStream_t stream = real(handle);
  if (stream->capture) return said(cudaErrorInvalidValue);
  stream->capture = new cusim_graph;
  stream->capture->origin = stream;
  stream->capture->joined.insert(stream);
  captures.insert(stream->capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* result) {
  const std::lock_guard lock(world());
  cusim_graph* graph = real(handle)->capture;
  *result = nullptr;
  if (!graph || graph->origin != real(handle)) return said(cudaErrorInvalidValue);
  for (const cudaStream_t stream : graph->joined) stream->capture = nullptr;
  captures.erase(graph);
  const bool unjoined = !graph->unjoined.empty();
  if (!graph->failed && !unjoined) {
    *result = graph;
    return cudaSuccess;
  }
  const bool failed = graph->failed;
  delete graph;
  return said(failed ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new cusim_graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo*) {
  const std::lock_guard lock(world());
  if (exec->work.size() != graph->work.size()) return said(cudaErrorGraphExecUpdateFailure);
  drain_all();  // launches of before keep their work
  exec->work = graph->work;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  enqueue("graph", stream, [work = exec->work] {
    for (const Work& piece : work) perform(performing, piece);
  });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
