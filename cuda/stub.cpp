// The functions of cuda/ in a build without CUDA: no devices, and errors that say what to do.
#include <utility>

#include <hero/core/accelerator.h>
#include <hero/core/error.h>
#include <hero/core/exchange.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/graph.h>

namespace hero::cuda {

bool is_built() { return false; }
int device_count() { return 0; }
std::string reason() {
  return "this build has no CUDA backend; install the CUDA toolkit and configure with "
         "-DHERO_CUDA=ON, or use cpu or meta";
}

namespace {
[[noreturn]] void none(const char* op) { fail(op, ": ", reason()); }
}  // namespace

void synchronize(Device) { none("synchronize"); }
void set_allow_tf32(bool) {}
bool allow_tf32() { return false; }
void set_attention_library(AttentionLibrary library) {
  if (library == AttentionLibrary::cudnn) none("set_attention_library");
}
AttentionLibrary attention_library() { return AttentionLibrary::own; }
ProductPlans product_plans() { return {}; }
DeviceProperties device_properties(Device) { none("device_properties"); }
MemoryStats memory_stats(Device) { none("memory_stats"); }
void reset_peak_memory(Device) { none("reset_peak_memory"); }
void empty_cache() {}
void time_operations(bool) {}
std::vector<OperationTime> operation_times() { return {}; }
std::string operation_times_text() { return ""; }
void reset_operation_times() {}
void profile(bool) {}
void record_use(const Array&, const Stream&) { none("record_use"); }

Array pinned(const Shape&, DType) { none("pinned"); }
Array pin_memory(const Array&) { none("pin_memory"); }
bool is_pinned(const Array&) { return false; }
Event copy_async(const Array&, const Array&) { none("copy_async"); }

struct GraphedStep::State {};
GraphedStep::GraphedStep(Step step, const GraphOptions&) {
  const Step unused = std::move(step);
  none("graphed step");
}
GraphedStep::~GraphedStep() = default;
std::vector<Array> GraphedStep::operator()(const std::vector<Array>&) { none("graphed step"); }
bool GraphedStep::captured() const { return false; }
int64_t GraphedStep::nodes() const { return 0; }

struct Stream::State {};
struct Event::State {};
Stream::Stream(Device, Priority) { none("stream"); }
Stream Stream::current(Device) { none("stream"); }
Device Stream::device() const { none("stream"); }
Event Stream::record() const { none("stream"); }
void Stream::wait(const Event&) const { none("stream"); }
void Stream::wait(const Stream&) const { none("stream"); }
void Stream::synchronize() const { none("stream"); }
bool Stream::query() const { none("stream"); }
void* Stream::handle() const { none("stream"); }
Event::Event(bool) {}
void Event::record(const Stream&) { none("event"); }
bool Event::query() const { return true; }
void Event::synchronize() const {}
double Event::elapsed_ms(const Event&) const { none("elapsed_ms"); }
StreamScope::StreamScope(const Stream& stream) : stream_(stream), previous_(stream) {}
StreamScope::~StreamScope() = default;

namespace {

class Absent final : public core::Accelerator {
 public:
  int device_count() override { return 0; }
  std::string reason() override { return cuda::reason(); }
  core::Backend& backend(int) override { fail("cuda: ", reason()); }
  void* allocate(int64_t, int) override { fail("cuda: ", reason()); }
  void deallocate(void*, int64_t, int) noexcept override {}
  core::HostMemory& host_memory() override { fail("cuda: ", reason()); }
  core::Exchange& exchange(int) override { fail("cuda: ", reason()); }
  Array pinned(const Shape&, DType) override { none("pinned"); }
  void copy_async(const Array&, const Array&) override { none("copy_async"); }
  std::unique_ptr<core::StreamGuard> copy_stream(core::CopyDirection, int) override {
    none("stream");
  }
  std::vector<std::shared_ptr<core::DeviceEvent>> record_events() override { return {}; }
};

}  // namespace
}  // namespace hero::cuda

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
int hero_cuda_registered = [] {
  static hero::cuda::Absent absent;
  hero::core::set_accelerator(&absent);
  return 1;
}();
}
