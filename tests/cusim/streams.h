#pragma once
// What streams, events and graphs are here; shared by the files of tests/cusim.
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <cuda_runtime.h>

namespace cusim {

struct Work {
  const char* op = "";
  std::function<void()> run;
  std::function<bool()> ready = nullptr;  // null: at once
  bool runs = false;                      // while it is not ready: a kernel that waits
};

/// Of several streams: what they were asked for, in that order.
struct HardwareQueue {
  struct Entry {
    cudaStream_t stream;
    uint64_t at;  // the stream has done so many when this is done
  };
  std::deque<Entry> entries;
  size_t first = 0;  // those before it are done
};

/// A lock that a thread may take any number of times, and let go of while it waits.
class WorldLock {
 public:
  void lock();
  void unlock();
  /// Lets other threads have it for so long, however often the calling thread has taken it.
  void pause(std::chrono::microseconds time);

 private:
  std::recursive_mutex mutex_;
  int taken_ = 0;  // by the thread that has it
};

/// Guards all streams, events, graphs and the books of memory.
WorldLock& world();

cudaError_t said(cudaError_t status);
/// As allocate_late() says.
bool allocates_late();
/// The calling thread's current device has a context from now on.
void use_current();
/// The error that a piece of work left behind, for good; cudaSuccess while there is none.
cudaError_t broken();
/// Runs a piece of work now, which is that stream's.
void perform(cudaStream_t stream, const Work& work);
/// Does everything that was asked for on all streams.
void drain_all();
/// Does everything that was asked for on one device; other devices may still wait for each other.
void drain_device(int device);
/// Does what was asked of one stream.
void drain(cudaStream_t stream);
/// Does the stream's work up to a position as far as it is ready; true when the stream is there.
bool go_on(cudaStream_t stream, uint64_t position);
/// Work that a stream of one's own begins when it is ready, later than it was asked for; with
/// `runs` a kernel, which has begun and is done when it is ready.
void enqueue_when(const char* op, cudaStream_t stream, std::function<bool()> ready,
                  std::function<void()> run, bool runs = false);
/// Whether streams share hardware queues: what all ranks have asked for may wait for what they have
/// not.
bool shares_queues();
/// What the host does again and again, with the lock, while it waits for work that is not ready;
/// it may let go of the lock.
void set_idle(void (*idle)(std::chrono::steady_clock::time_point since));
/// Null, or the graph that the stream's work goes into.
cusim_graph* captured_by(cudaStream_t stream);
/// What a capture forbids: marks the captures of this thread as failed, when there are any and the
/// thread did not ask for the relaxed mode.
bool forbidden_by_capture();

}  // namespace cusim

/// A graph is what was captured, in the order in which it was asked for.
struct cusim_graph {
  std::vector<cusim::Work> work;
  bool failed = false;
  cudaStream_t origin = nullptr;
  std::set<cudaStream_t> joined;    // streams that capture
  std::set<cudaStream_t> unjoined;  // with work that the origin did not wait for
};

struct cusim_stream {
  static constexpr int kEvery = -1;  // a thread's own stream, on the device that is current
  int device = 0, priority = 0;
  uint64_t number = 0;  // in the order in which streams were made
  std::deque<cusim::Work> queue;
  uint64_t asked = 0, done = 0;                    // pieces of work, counted
  std::shared_ptr<cusim::HardwareQueue> hardware;  // null: its own
  bool going_on = false, performing = false;       // in go_on(), in its next piece of work
  cusim_graph* capture = nullptr;
  uint64_t captured = 0;  // pieces of work that went into graphs
  double busy_ms = 0.0;   // what its work has taken
};

struct cusim_event {
  cudaStream_t stream = nullptr;  // null: never recorded
  uint64_t at = 0;                // passed once the stream has done so many
  cusim_graph* capture = nullptr;
  uint64_t captured = 0;
  std::shared_ptr<double> passed_ms;  // when, once passed
};
