#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#if !defined(HERO_CUSIM) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HERO_HAS_NVTX 1
#endif

#include <cuda_profiler_api.h>

#include <hero/core/profile/places.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/device_memory.cuh>
#include <hero/cuda/runtime/per_device.cuh>
#include <hero/cuda/runtime/times.cuh>

namespace hero::cuda {

std::atomic<unsigned> watched_launches = 0;

// One launch whose events may not have passed yet.
struct Launching::Mark {
  const char* op;
  std::string module;
  int device;
  cudaStream_t stream;
  cudaEvent_t begin = nullptr, end = nullptr;
};

// All launches of the process, by operation and module.
struct LaunchTimes {
  using Mark = Launching::Mark;
  // Beyond so many the oldest are waited for: a long run must not hold events without end.
  static constexpr size_t kMost = 1 << 14;

  struct Sum {
    int64_t launches = 0;
    double milliseconds = 0.0;
  };

  std::mutex mutex;
  std::deque<std::unique_ptr<Mark>> under_way;
  std::map<int, std::vector<cudaEvent_t>> spare;  // by device
  std::map<std::pair<std::string, std::string>, Sum> sums;

  cudaEvent_t event(int device) {
    auto& events = spare[device];
    if (events.empty()) {
      cudaEvent_t fresh = nullptr;
      check_cuda(cudaEventCreateWithFlags(&fresh, cudaEventDefault), "times");
      return fresh;
    }
    const cudaEvent_t last = events.back();
    events.pop_back();
    return last;
  }

  // Adds up what has passed; with `wait` all of it.
  void collect(bool wait) {
    while (!under_way.empty()) {
      const Mark& first = *under_way.front();
      if (wait || under_way.size() > kMost) {
        // after an error of a kernel nothing is known of its time, and the error is another's to
        // tell
        if (cudaEventSynchronize(first.end) != cudaSuccess) cudaGetLastError();
      } else if (const cudaError_t status = cudaEventQuery(first.end); status != cudaSuccess) {
        cudaGetLastError();
        if (status == cudaErrorNotReady) return;
      }
      float milliseconds = 0.0f;
      if (cudaEventElapsedTime(&milliseconds, first.begin, first.end) == cudaSuccess) {
        Sum& sum = sums[{first.op, first.module}];
        ++sum.launches;
        sum.milliseconds += milliseconds;
      } else {
        cudaGetLastError();
      }
      spare[first.device].push_back(first.begin);
      spare[first.device].push_back(first.end);
      under_way.pop_front();
    }
  }
};

namespace {

// Never freed: threads may launch to the very end.
LaunchTimes& times() {
  static auto& value = *new LaunchTimes;
  return value;
}

Ranges& ranges() {
  static Ranges value = {
#if defined(HERO_HAS_NVTX)
    [](const char* name) { nvtxRangePushA(name); },
    [] { nvtxRangePop(); }
#endif
  };
  return value;
}

bool asked_for(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && std::strcmp(text, "1") == 0;
}

// "h.11.attn" -> "h.*.attn": layers of one kind are one line.
std::string without_numbers(const std::string& module) {
  std::string kind;
  for (size_t at = 0; at < module.size();) {
    const size_t end = std::min(module.find('.', at), module.size());
    const std::string part = module.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    kind += number ? "*" : part;
    if (end < module.size()) kind += '.';
    at = end + 1;
  }
  return kind.empty() ? "(outside of modules)" : kind;
}

std::string lines_of(const char* title, const std::map<std::string, LaunchTimes::Sum>& sums) {
  std::vector<std::pair<std::string, LaunchTimes::Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.milliseconds > b.second.milliseconds;
  });
  LaunchTimes::Sum all;
  for (const auto& [name, sum] : rows) {
    all.launches += sum.launches;
    all.milliseconds += sum.milliseconds;
  }
  rows.emplace_back("all", all);
  std::string text;
  char line[160];
  std::snprintf(line, sizeof(line), "%-44s %9s %12s %7s\n", title, "launches", "ms", "share");
  text += line;
  for (const auto& [name, sum] : rows) {
    const double share = all.milliseconds > 0 ? sum.milliseconds / all.milliseconds : 0.0;
    std::snprintf(line, sizeof(line), "%-44.44s %9lld %12.4f %6.1f%%\n", name.c_str(),
                  static_cast<long long>(sum.launches), sum.milliseconds, 100.0 * share);
    text += line;
  }
  return text;
}

void print_at_end() {
  try {
    const std::string text = operation_times_text();
    if (!text.empty()) std::fputs(text.c_str(), stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "HERO_CUDA_TIMES: %s\n", error.what());
  }
}

[[maybe_unused]] const bool kAskedAtStart = [] {
  unsigned asked = asked_for("HERO_CUDA_TIMES") ? kEvents : 0;
  if (asked_for("HERO_CUDA_NVTX")) asked |= kRanges;
  watched_launches = asked;
  core::keeps_places = asked != 0;
  return asked != 0;
}();

}  // namespace

void set_ranges(const Ranges& other) {
  ranges() = other;
  unsigned watched = watched_launches & ~kRanges;
  if (other.open != nullptr) watched |= kRanges;
  watched_launches = watched;
  core::keeps_places = watched != 0;
}

void Launching::open(const char* op) {
  const unsigned watched = watched_launches;
  if ((watched & kRanges) != 0 && ranges().open != nullptr) {
    const std::string module = current_place();
    if (!module.empty()) ranges().open(module.c_str());
    ranges().open(op);
    ranges_ = module.empty() ? 1 : 2;
  }
  if ((watched & kEvents) == 0 || capturing()) return;
  // Here the runtime is up: what it does at the program's end comes after what is asked for now.
  [[maybe_unused]] static const bool prints =
      asked_for("HERO_CUDA_TIMES") && std::atexit(print_at_end) == 0;
  LaunchTimes& all = times();
  const std::lock_guard lock(all.mutex);
  all.collect(false);
  const int device = current_cuda(op).index;
  auto mark = std::make_unique<Mark>(Mark{op, current_place(), device, current_stream()});
  mark->begin = all.event(device);
  mark->end = all.event(device);
  check_cuda(cudaEventRecord(mark->begin, mark->stream), op);
  mark_ = mark.release();
}

void Launching::close() noexcept {
  for (; ranges_ > 0; --ranges_) ranges().close();
  std::unique_ptr<Mark> mark(std::exchange(mark_, nullptr));
  if (!mark) return;
  LaunchTimes& all = times();
  const std::lock_guard lock(all.mutex);
  // an error is left for who checks the launch
  if (cudaEventRecord(mark->end, mark->stream) == cudaSuccess)
    all.under_way.push_back(std::move(mark));
}

void time_operations(bool on) {
  unsigned watched = watched_launches & ~kEvents;
  if (on) watched |= kEvents;
  watched_launches = watched;
  core::keeps_places = watched != 0;
}

std::vector<OperationTime> operation_times() {
  LaunchTimes& all = times();
  const std::lock_guard lock(all.mutex);
  all.collect(true);
  std::vector<OperationTime> list;
  for (const auto& [key, sum] : all.sums) {
    list.push_back({key.first, key.second, sum.launches, sum.milliseconds});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  return list;
}

std::string operation_times_text() {
  std::map<std::string, LaunchTimes::Sum> by_op, by_module;
  for (const OperationTime& time : operation_times()) {
    for (LaunchTimes::Sum* sum : {&by_op[time.op], &by_module[without_numbers(time.module)]}) {
      sum->launches += time.launches;
      sum->milliseconds += time.milliseconds;
    }
  }
  if (by_op.empty()) return "";
  return "the GPU's time by operation and by module, with what lies between its events:\n" +
         lines_of("operation", by_op) + "\n" + lines_of("module", by_module);
}

void profile(bool on) { check_cuda(on ? cudaProfilerStart() : cudaProfilerStop(), "profile"); }

void reset_operation_times() {
  LaunchTimes& all = times();
  const std::lock_guard lock(all.mutex);
  all.collect(true);
  all.sums.clear();
}

}  // namespace hero::cuda
