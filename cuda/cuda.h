#pragma once
// What a program may ask of the GPUs. Tensors get there with x.to({DeviceType::cuda, 0}) or with
// `.device` in their options; nothing here is needed for that. In a build without CUDA all of this
// exists, and there are no devices: what needs one throws.
#include <memory>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/device.h>
#include <hero/cuda/memory_stats.h>

namespace hero::cuda {

/// Whether this build has the CUDA backend.
bool is_built();

/// GPUs that can be used now; 0 without a driver, and in a build without CUDA.
int device_count();

/// Whether there is at least one.
inline bool is_available() { return device_count() > 0; }

/// Why there is none, in one line; "" where there is one.
std::string reason();

struct DeviceProperties {
  std::string name;
  int64_t memory = 0;        ///< bytes
  int multiprocessors = 0;   ///< SMs
  int major = 0, minor = 0;  ///< compute capability
  std::string uuid;          ///< 32 hexadecimal digits: the same GPU in every process, and no other
};
DeviceProperties device_properties(Device device = {DeviceType::cuda, 0});

/// Waits until the GPU has done everything that the calling thread's current stream was asked for;
/// throws what went wrong meanwhile, with the operations that may have been it.
void synchronize(Device device = {DeviceType::cuda, 0});

/// Whether products of float32 may round their factors to TF32 (11 bits), which tensor cores
/// multiply several times as fast. For the whole process; false unless set.
void set_allow_tf32(bool allow);
bool allow_tf32();

/// Whose kernels compute attention, for the whole process: our own unless set. cuDNN's take halves
/// in sizes of a multiple of 8 up to 128, without mask and bias; everything else stays ours. Its
/// backward pass needs a workspace of one half for every score. An Error where the build or the
/// system has no cuDNN (HERO_CUDNN=0 in the environment hides it, any other text names its file),
/// and in attention where it refuses a shape.
enum class AttentionLibrary { own, cudnn };
void set_attention_library(AttentionLibrary library);
AttentionLibrary attention_library();

/// How often this process set a shape of product up for cuBLASLt (the quickest of several
/// algorithms is found by measuring; HERO_CUDA_AUTOTUNE=0 in the environment takes the library's
/// first), and how often it found one set up.
struct ProductPlans {
  int64_t made = 0, reused = 0;
};
ProductPlans product_plans();

/// \name Memory
/// Blocks of freed arrays are kept and handed out again. HERO_CUDA_CACHE=0 in the environment
/// turns that off, for memory checkers.
/// \{
MemoryStats memory_stats(Device device = {DeviceType::cuda, 0});
/// Peaks restart from what is held now.
void reset_peak_memory(Device device = {DeviceType::cuda, 0});
/// Gives memory that no array uses back to the devices.
void empty_cache();
/// \}

/// \name Where the GPU's time goes
/// With HERO_CUDA_TIMES=1 in the environment an event stands before and after whatever the library
/// launches, and at the program's end the times between them are printed to stderr, summed by
/// operation and by module (that of the forward pass also for its derivatives). A graph's replay is
/// one operation. With HERO_CUDA_NVTX=1 operations and modules are ranges in NVIDIA's profilers.
/// \{
struct OperationTime {
  std::string op, module;  ///< module: its path, "" outside of any
  int64_t launches = 0;
  double milliseconds = 0.0;
};
/// Begins or ends it in the program itself, whatever the environment says.
void time_operations(bool on);
/// The sums so far, the longest first; waits for the work.
std::vector<OperationTime> operation_times();
/// The same as the printed tables; "" where nothing was timed.
std::string operation_times_text();
void reset_operation_times();
/// Begins or ends what a profiler collects that was told not to begin by itself.
void profile(bool on);
/// \}

class Event;

/// A queue of work of one device: what is asked of it is done in order, beside what other streams
/// do. Copies are the same stream. The driver's stream goes back to a stock when the last copy is
/// gone; work that it still has is done all the same.
class Stream {
 public:
  /// Another stream than those in use.
  explicit Stream(Device device = {DeviceType::cuda, 0});
  /// The calling thread's current stream: its own, unless a StreamScope is open.
  static Stream current(Device device = {DeviceType::cuda, 0});

  Device device() const;
  /// An event at the end of what was asked until now.
  Event record() const;
  /// What is asked from now on starts after the event; the host does not wait.
  void wait(const Event& event) const;
  /// As wait(), for all that `other` was asked for until now.
  void wait(const Stream& other) const;
  /// The host waits for all that was asked; throws what went wrong.
  void synchronize() const;
  /// Whether everything is done.
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

/// A point in a stream's work. Copies are the same event; one that was never recorded has passed.
class Event {
 public:
  /// Only events with `timing` know when they passed.
  explicit Event(bool timing = false);
  /// Moves it to the end of what the stream was asked for until now.
  void record(const Stream& stream);
  bool query() const;
  /// The host waits for it; throws what went wrong.
  void synchronize() const;
  /// Milliseconds from `start` to this event on the GPU; both have `timing` and are waited for.
  double elapsed_ms(const Event& start) const;

 private:
  struct State;
  friend class Stream;
  std::shared_ptr<State> state_;
};

/// Makes a stream the calling thread's current one of its device while it lives: work goes there,
/// and arrays made meanwhile belong to it. An array that is used on another stream than that of
/// its making needs both an event between them and record_use().
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

/// The array's memory, once freed, is reused only after what `stream` is asked for until then.
void record_use(const Array& array, const Stream& stream);

/// \name Page-locked host memory
/// The GPU copies from and to it beside the host's work. It is slow to get and is taken from all
/// programs of the machine: for what is copied again and again.
/// \{
/// An uninitialised cpu array. Bytes that its storage releases and refills are ordinary ones.
Array pinned(const Shape& shape, DType dtype = kFloat32);
/// A copy of a cpu array there; itself when it lies there already.
Array pin_memory(const Array& array);
bool is_pinned(const Array& array);
/// Copies between a pinned array and one on cuda, both contiguous and of one shape and dtype, on
/// the current stream and without waiting: until the event neither side may be changed, and the
/// values are not there. Can be part of a graphed step.
Event copy_async(const Array& src, const Array& dst);
/// \}

}  // namespace hero::cuda
