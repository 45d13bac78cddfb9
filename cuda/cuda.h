#pragma once
// What a program can ask of the GPUs. Tensors are moved to a GPU by x.to({DeviceType::cuda, 0}), or
// made there by `.device` in their options, for which nothing in this header is needed. In a build
// without CUDA, these functions exist, but there are no devices, and functions that need one throw
// an Error.
#include <memory>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/device.h>
#include <hero/cuda/memory_stats.h>

namespace hero::cuda {

/// True if this build has the CUDA backend.
bool is_built();

/// The number of GPUs that can be used now; 0 without a driver, and in a build without CUDA.
int device_count();

/// True if there is at least one GPU.
inline bool is_available() { return device_count() > 0; }

/// Why there is no GPU, in one line; "" if there is one.
std::string reason();

/// Properties of a GPU.
struct DeviceProperties {
  std::string name;          ///< the name of the model
  int64_t memory = 0;        ///< bytes of device memory
  int multiprocessors = 0;   ///< streaming multiprocessors
  int major = 0, minor = 0;  ///< compute capability
  std::string uuid;  ///< 32 hexadecimal digits that identify the GPU, the same in every process
};
DeviceProperties device_properties(Device device = {DeviceType::cuda, 0});

/// Waits until the GPU has done all work in the calling thread's current stream. If something went
/// wrong, throws an Error with the operations that may have caused it.
void synchronize(Device device = {DeviceType::cuda, 0});

/// Whether matrix products of float32 may round their factors to TF32 (11 bits), which tensor cores
/// multiply several times as fast. The setting is for the whole process, and false by default.
void set_allow_tf32(bool allow);
bool allow_tf32();

/// Which kernels compute attention, for the whole process: Hero's own unless set. cuDNN's kernels
/// take half precision and head sizes that are multiples of 8 up to 128, without mask and bias;
/// everything else is computed by Hero's own. Their backward pass needs a workspace of one element
/// of half precision for every score. Throws an Error if the build or the system has no cuDNN
/// (HERO_CUDNN=0 in the environment hides it, any other value is the path of its file); attention
/// throws an Error if cuDNN refuses a shape.
enum class AttentionLibrary { own, cudnn };
void set_attention_library(AttentionLibrary library);
AttentionLibrary attention_library();

/// How often this process has set up cuBLASLt for a shape of matrix product (it measures several
/// algorithms and takes the fastest; with HERO_CUDA_AUTOTUNE=0 in the environment it takes the
/// library's first), and how often it has reused one.
struct ProductPlans {
  int64_t made = 0, reused = 0;
};
ProductPlans product_plans();

/// \name Memory
/// Blocks of freed arrays are kept and reused. HERO_CUDA_CACHE=0 in the environment turns that off,
/// for memory checkers.
/// \{
MemoryStats memory_stats(Device device = {DeviceType::cuda, 0});
/// Sets the peaks to the bytes that are allocated now.
void reset_peak_memory(Device device = {DeviceType::cuda, 0});
/// Returns memory that no array uses to the devices, except to devices that wait for another rank.
void empty_cache();
/// \}

/// \name Where the GPU's time goes
/// With HERO_CUDA_TIMES=1 in the environment, the library records an event before and after each
/// operation that it launches, and when the program ends it prints the times between them to
/// stderr, summed by operation and by module (derivatives count for the module of their forward
/// pass). The replay of a graph is one operation. With HERO_CUDA_NVTX=1, operations and modules are
/// ranges in NVIDIA's profilers.
/// \{
struct OperationTime {
  std::string op, module;  ///< the operation's name, and the path of its module, "" outside of any
  int64_t launches = 0;
  double milliseconds = 0.0;
};
/// Begins or ends the measurement, whatever the environment says.
void time_operations(bool on);
/// The sums so far, the longest time first; waits for work that is not done.
std::vector<OperationTime> operation_times();
/// The sums as the tables that are printed when the program ends; "" if nothing was measured.
std::string operation_times_text();
void reset_operation_times();
/// Begins or ends collecting in a profiler that was started without collecting.
void profile(bool on);
/// \}

class Event;

/// A queue of work for a device: its work is done in order, concurrently with that of other
/// streams. Copies of a handle are the same stream. When the last copy is destroyed, the driver's
/// stream is kept for reuse, and work that is queued in it still completes.
class Stream {
 public:
  /// Of streams that have work at the same time, those of high priority get what the GPU has free
  /// first. What runs is not interrupted.
  enum class Priority { normal, high };
  /// Makes a stream other than those in use.
  explicit Stream(Device device = {DeviceType::cuda, 0}, Priority priority = Priority::normal);
  /// The calling thread's current stream: its own, unless a StreamScope is open.
  static Stream current(Device device = {DeviceType::cuda, 0});

  Device device() const;
  /// An event after all work given so far.
  Event record() const;
  /// Makes all later work start after the event; the host does not wait.
  void wait(const Event& event) const;
  /// Makes all later work start after all work given to `other` so far.
  void wait(const Stream& other) const;
  /// Makes the host wait for all work given so far; throws an Error if something went wrong.
  void synchronize() const;
  /// True if all work is done.
  bool query() const;
  /// The cudaStream_t.
  void* handle() const;
  friend bool operator==(const Stream& a, const Stream& b) { return a.handle() == b.handle(); }

 private:
  struct State;
  friend class StreamScope;
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// A point in the queue of work of a stream. Copies are the same event; an event that was never
/// recorded counts as passed.
class Event {
 public:
  /// Makes an event; elapsed_ms() needs events with `timing`.
  explicit Event(bool timing = false);
  /// Places the event after all work that the stream was given so far.
  void record(const Stream& stream);
  bool query() const;
  /// Makes the host wait for the event; throws an Error if something went wrong.
  void synchronize() const;
  /// The milliseconds from `start` to this event on the GPU; waits for both, which must have
  /// `timing`.
  double elapsed_ms(const Event& start) const;

 private:
  struct State;
  friend class Stream;
  std::shared_ptr<State> state_;
};

/// While it lives, `stream` is the calling thread's current stream for its device: work is queued
/// there, and the memory of new arrays belongs to it. An array that is used on another stream than
/// the one on which it was made needs both an event between the two streams and record_use().
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream stream_;
  Stream previous_;
};

/// Once the array's memory is freed, it is reused only after all work that `stream` was given until
/// the memory was freed.
void record_use(const Array& array, const Stream& stream);

/// \name Page-locked host memory
/// The GPU copies from and to it while the host works. It is slow to allocate, and takes memory
/// from all programs of the machine, so use it for arrays that are copied again and again.
/// \{
/// An uninitialised cpu array in such memory. If its storage is released and refilled, it has
/// ordinary memory.
Array pinned(const Shape& shape, DType dtype = kFloat32);
/// A copy of a cpu array in such memory; the array itself if it is there already.
Array pin_memory(const Array& array);
bool is_pinned(const Array& array);
/// Copies between a pinned array and one on cuda, both contiguous and of the same shape and dtype,
/// in the current stream and without waiting. Until the returned event has passed, the values are
/// not there, and neither side may be changed. It can be part of a graphed step.
Event copy_async(const Array& src, const Array& dst);
/// \}

}  // namespace hero::cuda
