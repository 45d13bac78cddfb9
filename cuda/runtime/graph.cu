#include <bit>
#include <utility>

#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/host_steps.h>
#include <hero/core/random.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/graph.h>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/graph.cuh>
#include <hero/cuda/runtime/launch.cuh>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

namespace {

thread_local HostValues* noted = nullptr;
thread_local std::vector<void*>* kept = nullptr;  // page-locked blocks, while capturing

// The calling thread's numbers go to `values` while it lives.
class Noting {
 public:
  explicit Noting(HostValues& values) : previous_(std::exchange(noted, &values)) { values.clear(); }
  ~Noting() { noted = previous_; }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  HostValues* previous_;
};

// Streams of the default generator that the step has drawn from begin at `first`.
struct Drawing {
  uint64_t first;
  const RandomBase* base;  // null in a call that is not captured
};
thread_local const Drawing* drawing = nullptr;

class DrawingScope {
 public:
  explicit DrawingScope(const RandomBase* base)
      : now_{default_generator().state().offset, base}, previous_(std::exchange(drawing, &now_)) {}
  ~DrawingScope() { drawing = previous_; }
  DrawingScope(const DrawingScope&) = delete;
  DrawingScope& operator=(const DrawingScope&) = delete;

 private:
  Drawing now_;
  const Drawing* previous_;
};

// The host's part of the calling thread's work goes to `host` while it lives, and coefficients of
// updates to `live`.
class Recording {
 public:
  Recording(core::HostSteps* host, LiveCoefficients& live, LiveCoefficients::Phase phase)
      : scope_(host ? &live : nullptr), previous_(std::exchange(core::HostSteps::current(), host)) {
    if (!host) return;
    host->parts.clear();
    live.begin(phase);
  }
  ~Recording() { core::HostSteps::current() = previous_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  LiveScope scope_;
  core::HostSteps* previous_;
};

using Options = std::vector<std::vector<double>>;

Options options_of(const std::vector<core::HostSteps::Part>& parts) {
  Options options;
  for (const core::HostSteps::Part& part : parts) options.push_back(part.options());
  return options;
}

__global__ void random_base_kernel(RandomBase* base, RandomBase value) { *base = value; }

void check_same_values(const HostValues& before, const HostValues& now) {
  check(before.size() == now.size(), "graphed step: the captured call took ", now.size(),
        " numbers from the host, the call before it ", before.size(),
        "; a graph repeats one call, so use more warmup or recapture");
  for (size_t i = 0; i < now.size(); ++i) {
    check(std::bit_cast<uint64_t>(before[i].value) == std::bit_cast<uint64_t>(now[i].value),
          "graphed step: ", now[i].op,
          " takes a number from the host that changes from call to "
          "call (",
          before[i].value, ", then ", now[i].value,
          "), and a replayed graph would repeat it; use recapture");
  }
}

}  // namespace

bool keep_for_graph(void* pinned_block) {
  if (!kept) [[likely]]
    return false;
  kept->push_back(pinned_block);
  return true;
}

void note_values(const char* op, std::span<const double> values) {
  if (!noted) [[likely]]
    return;
  for (const double value : values) noted->push_back({op, value});
}

const RandomBase* random_base(uint64_t seed, uint64_t stream) {
  if (!drawing) [[likely]]
    return nullptr;
  const Generator::State now = default_generator().state();
  if (seed == now.seed && stream >= drawing->first && stream < now.offset) return drawing->base;
  const double halves[] = {static_cast<double>(stream >> 32),
                           static_cast<double>(stream & 0xffffffffu)};
  note_values("random", halves);
  return nullptr;
}

struct GraphedStep::State {
  Step step;
  GraphOptions options;
  Stream stream;
  CachingAllocator::PoolId pool;
  int64_t calls = 0;
  HostValues values;
  std::vector<Array> inputs, outputs;
  std::vector<void*> pinned;  // blocks that were freed in the capture
  cudaGraphExec_t exec = nullptr;
  int64_t nodes = 0;
  core::HostSteps host;  // of the last call whose host code ran
  LiveCoefficients live;
  Array base;          // the RandomBase
  uint64_t first = 0;  // stream of the default generator when captured
  uint64_t drawn = 0;  // streams that each call takes from it

  State(Step what, const GraphOptions& how)
      : step(std::move(what)), options(how), stream(how.device), pool(memory().make_pool()) {}
  ~State() {
    inputs.clear();
    outputs.clear();
    if (exec) cudaGraphExecDestroy(exec);
    give_pinned();
    memory().release_pool(pool);
  }
  // Copies that use them are waited for by the cache.
  void give_pinned() {
    for (void* block : pinned) free_pinned(block);
    pinned.clear();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  CachingAllocator& memory() const { return device_memory(options.device.index); }
  cudaStream_t handle() const { return static_cast<cudaStream_t>(stream.handle()); }
  void take(const std::vector<Array>& given);
  cudaGraph_t capture();
  void instantiate(cudaGraph_t graph);
  void advance_random();
  void repeat_host();
  core::HostSteps* recorded() { return options.recapture ? nullptr : &host; }
  RandomBase* random() const { return reinterpret_cast<RandomBase*>(base.bytes()); }
  std::vector<Array> run();
};

// Copies the inputs to where the step expects them.
void GraphedStep::State::take(const std::vector<Array>& given) {
  if (calls == 0) {
    base = Array::empty({2}, kInt64, options.device);
    live.allocate(options.device);
    inputs.clear();
    for (const Array& input : given) {
      inputs.push_back(Array::empty(input.shape(), input.dtype(), options.device));
    }
  }
  check(given.size() == inputs.size(), "graphed step: ", given.size(), " inputs where the first ",
        "call had ", inputs.size());
  for (size_t i = 0; i < given.size(); ++i) {
    check(given[i].shape() == inputs[i].shape() && given[i].dtype() == inputs[i].dtype(),
          "graphed step: input ", i, " is ", given[i].dtype(), " ", given[i].shape(),
          " where the first call had ", inputs[i].dtype(), " ", inputs[i].shape(),
          "; a graph has fixed shapes, make one for each");
  }
  for (size_t i = 0; i < given.size(); ++i)
    core::backend(options.device).run(core::call::Copy{given[i], inputs[i]});
}

namespace {

// A capture of the calling thread's work on `stream`, with memory from `pool`. One that is not
// finished is thrown away.
class Capture {
 public:
  Capture(CachingAllocator& memory, CachingAllocator::PoolId pool, cudaStream_t stream,
          std::vector<void*>& pinned)
      : memory_(memory), stream_(stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "graphed step");
    memory.route(stream, pool);
    capturing() = true;
    kept = &pinned;
  }
  ~Capture() {
    if (!open_) return;
    cudaGraph_t graph = nullptr;
    end(graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t finish() {
    cudaGraph_t graph = nullptr;
    check_cuda(end(graph), "graphed step");
    return graph;
  }

 private:
  cudaError_t end(cudaGraph_t& graph) {
    open_ = false;
    capturing() = false;
    kept = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
    memory_.end_route(stream_);
    return status;
  }

  CachingAllocator& memory_;
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace

cudaGraph_t GraphedStep::State::capture() {
  HostValues now;
  std::vector<Array> made;
  const Generator::State before = default_generator().state();
  const std::vector<core::HostSteps::Part> warmed_up = host.parts;
  const Options options_before = options_of(warmed_up);
  cudaGraph_t graph = nullptr;
  try {
    Capture capture(memory(), pool, handle(), pinned);
    const Noting noting(now);
    const DrawingScope scope(options.recapture ? nullptr : random());
    const Recording recording(recorded(), live, LiveCoefficients::Phase::capture);
    made = step(inputs);
    graph = capture.finish();
    if (!options.recapture) check_same_values(values, now);
    check(options_of(warmed_up) == options_before,
          "graphed step: the call changes options of its optimizer, such as the learning rate, "
          "which a replayed graph would not; change them between the calls, or use recapture");
  } catch (...) {
    if (graph) cudaGraphDestroy(graph);
    give_pinned();
    default_generator().set_state(before);
    throw;
  }
  first = before.offset;
  drawn = default_generator().state().offset - first;
  if (!options.recapture) default_generator().set_state(before);  // the replay draws them
  outputs = std::move(made);
  return graph;
}

void GraphedStep::State::instantiate(cudaGraph_t graph) {
  const InCallGate gate(options.device.index);
  if (exec) {
    cudaGraphExecUpdateResultInfo info;
    if (cudaGraphExecUpdate(exec, graph, &info) == cudaSuccess) return;
    cudaGetLastError();  // the step has another form now: a graph of its own
    cudaGraphExecDestroy(std::exchange(exec, nullptr));
  }
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "graphed step");
}

// The replay's numbers are those that the default generator would give out now.
void GraphedStep::State::advance_random() {
  if (drawn == 0) return;
  const Generator::State now = default_generator().state();
  launch("graphed step", random_base_kernel, dim3(1), dim3(1), 0, random(),
         RandomBase{now.seed, now.offset - first});
  default_generator().set_state({now.seed, now.offset + drawn});
}

// What the step's optimizers do on the host: they count, and say what the step's coefficients are.
void GraphedStep::State::repeat_host() {
  core::HostSteps now;
  const Recording recording(&now, live, LiveCoefficients::Phase::replay);
  for (const core::HostSteps::Part& part : host.parts) part.again();
  live.end_replay();
}

std::vector<Array> GraphedStep::State::run() {
  if (calls < options.warmup) {
    const Noting noting(values);
    const DrawingScope scope(nullptr);
    const Recording recording(recorded(), live, LiveCoefficients::Phase::warm_up);
    return step(inputs);
  }
  if (exec && !options.recapture) repeat_host();
  if (!exec || options.recapture) {
    cudaGraph_t graph = capture();
    size_t count = 0;
    cudaGraphGetNodes(graph, nullptr, &count);
    nodes = static_cast<int64_t>(count);
    try {
      instantiate(graph);
    } catch (...) {
      cudaGraphDestroy(graph);
      throw;
    }
    cudaGraphDestroy(graph);
  }
  if (!options.recapture) {
    live.send();
    advance_random();
  }
  {
    const Launching launching("graphed step");
    check_cuda(cudaGraphLaunch(exec, handle()), "graphed step");
  }
  if (options.recapture) give_pinned();
  if (synchronous()) wait_for_stream("graphed step");
  return options.recapture ? std::move(outputs) : outputs;
}

GraphedStep::GraphedStep(Step step, const GraphOptions& options) {
  core::accelerator("graphed step", options.device);
  check(options.warmup >= 1, "graphed step: warmup is ", options.warmup,
        ", but what is made at first use must be there before the capture; use at least 1");
  state_ = std::make_unique<State>(std::move(step), options);
}

GraphedStep::~GraphedStep() = default;

std::vector<Array> GraphedStep::operator()(const std::vector<Array>& inputs) {
  State& s = *state_;
  const DeviceGuard guard(s.options.device.index);
  const Stream caller = Stream::current(s.options.device);
  s.stream.wait(caller);
  std::vector<Array> outputs;
  try {
    const StreamScope scope(s.stream);
    s.take(inputs);
    outputs = s.run();
  } catch (...) {
    // what was given before the error still comes before the caller's next work
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (event && cudaEventRecord(event, s.handle()) == cudaSuccess) {
      cudaStreamWaitEvent(static_cast<cudaStream_t>(caller.handle()), event, 0);
    }
    if (event) cudaEventDestroy(event);
    cudaGetLastError();
    throw;
  }
  caller.wait(s.stream);
  ++s.calls;
  return outputs;
}

bool GraphedStep::captured() const { return state_->exec != nullptr; }
int64_t GraphedStep::nodes() const { return state_->nodes; }

}  // namespace hero::cuda
