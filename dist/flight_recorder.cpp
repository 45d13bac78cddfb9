#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/profile/trace_file.h>
#include <hero/core/threads/at_fork.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist {
namespace {

constexpr const char* kFolderVariable = "HERO_FLIGHT_RECORDER";

double seconds_since_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// "2026-11-29 18:59:59 UTC"
std::string date_of(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  ::gmtime_r(&whole, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string shown_time(double time, double now) {
  if (time == 0.0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", time - now);
  return text;
}

// The recorders of this process, and the end of the pipe that a signal's handler writes to.
constinit std::mutex flights_mutex;
std::vector<std::shared_ptr<FlightRecorder>>& flights() {
  static auto* const instance = new std::vector<std::shared_ptr<FlightRecorder>>;
  return *instance;
}
constinit std::atomic<int> wake_end = -1;
bool failure_written = false;  // of the ranks that are now; under the mutex
[[maybe_unused]] const bool kFlightsAtFork = core::at_fork(
    [] {
      flights_mutex.lock();
      flights();
    },
    [] { flights_mutex.unlock(); },
    [] {
      wake_end = -1;  // the thread that reads is the parent's
      flights_mutex.unlock();
    });

using Recorders = std::vector<std::shared_ptr<FlightRecorder>>;

// Under the mutex.
Recorders sorted_recorders() {
  Recorders all = flights();
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a->rank() < b->rank(); });
  return all;
}

Recorders recorders() {
  const std::lock_guard lock(flights_mutex);
  return sorted_recorders();
}

const char* flight_folder() {
  const char* const folder = std::getenv(kFolderVariable);
  return folder == nullptr || *folder == '\0' ? nullptr : folder;
}

void write_records(const std::string& folder, const Recorders& all);

void write_to(const char* folder, const char* why, const Recorders& all) noexcept {
  try {
    write_records(folder, all);
    std::fprintf(stderr, "%s: the last calls of this process's ranks are in %s\n", why, folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", why, error.what());
  }
}

extern "C" void on_flight_signal(int) {
  const int before = errno;
  const char byte = 0;
  const int end = wake_end;
  if (end >= 0) (void)!::write(end, &byte, 1);
  errno = before;
}

// Where the environment asks for it: SIGUSR1 wakes a thread that writes. Under the mutex.
void listen_for_signal() {
  if (wake_end >= 0 || flight_folder() == nullptr) return;
  struct sigaction now = {};
  const bool known = ::sigaction(SIGUSR1, nullptr, &now) == 0;
  const bool ours = known && now.sa_handler == on_flight_signal;
  if (!known || (now.sa_handler != SIG_DFL && !ours)) return;  // the program's own
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  try {
    std::thread([from = ends[0]] {
      char byte = 0;
      while (retried([&] { return ::read(from, &byte, 1); }) == 1) {
        if (const char* const folder = flight_folder()) write_to(folder, "SIGUSR1", recorders());
      }
    }).detach();
  } catch (const std::system_error&) {
    ::close(ends[0]);
    ::close(ends[1]);
    return;
  }
  wake_end = ends[1];
  struct sigaction handler = {};
  handler.sa_handler = on_flight_signal;
  handler.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &handler, nullptr);
}

std::string file_of(const std::string& folder, int rank, const char* suffix) {
  char name[40];
  std::snprintf(name, sizeof name, "/rank-%05d%s", rank, suffix);
  return folder + name;
}

}  // namespace

uint64_t FlightRecorder::ask(FlightCall call) {
  call.asked = seconds_since_epoch();
  const std::lock_guard lock(mutex_);
  call.number = ++asked_;
  if (ring_.size() < kCalls) {
    ring_.push_back(std::move(call));
  } else {
    ring_[(asked_ - 1) % kCalls] = std::move(call);
  }
  return asked_;
}

template <class Change>
void FlightRecorder::change(uint64_t number, const Change& change) {
  const double now = seconds_since_epoch();
  const std::lock_guard lock(mutex_);
  if (number == 0 || number > asked_) return;
  FlightCall& call = ring_[(number - 1) % kCalls];
  if (call.number == number) change(call, now);  // else it is no longer kept
}

void FlightRecorder::await(uint64_t number) {
  change(number, [](FlightCall& call, double now) {
    if (call.awaited == 0.0) call.awaited = now;
  });
}

void FlightRecorder::begin(uint64_t number) {
  change(number, [](FlightCall& call, double now) {
    if (call.begun == 0.0) call.begun = now;
  });
}

void FlightRecorder::complete(uint64_t number) {
  change(number, [](FlightCall& call, double now) {
    if (call.done == 0.0) call.done = now;
  });
}

std::vector<FlightCall> FlightRecorder::calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<FlightCall> calls = ring_;
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return calls;
}

std::string FlightRecorder::table() const {
  const double now = seconds_since_epoch();
  const std::vector<FlightCall> all = calls();
  const auto open = std::find_if(all.begin(), all.end(), [](const FlightCall& call) {
    return call.done == 0.0 && call.awaited != 0.0;
  });
  std::string text = "rank " + std::to_string(rank_) + " at " + date_of(now) + ": ";
  if (all.empty()) return text + "no calls\n";
  text += open != all.end() ? "it waits for call " + std::to_string(open->number)
                            : std::string("it waits for no call; its last one is ") +
                                  std::to_string(all.back().number);
  text += "\nseconds count from then back; - : not yet\n";
  char line[256];
  std::snprintf(line, sizeof line, "%9s  %-14s %-12s %-24s %5s %14s %9s %11s %11s %11s %11s\n",
                "call", "operation", "group", "unit", "root", "elements", "dtype", "asked", "waits",
                "begun", "done");
  text += line;
  for (const FlightCall& call : all) {
    const std::string root = call.root < 0 ? "" : std::to_string(call.root);
    std::snprintf(line, sizeof line,
                  "%9llu  %-14s %-12.40s %-24.80s %5s %14lld %9s %11s %11s %11s %11s",
                  static_cast<unsigned long long>(call.number), name(call.op), call.axis.c_str(),
                  call.unit.c_str(), root.c_str(), static_cast<long long>(call.size),
                  to_string(call.dtype).c_str(), shown_time(call.asked, now).c_str(),
                  shown_time(call.awaited, now).c_str(), shown_time(call.begun, now).c_str(),
                  shown_time(call.done, now).c_str());
    text += line;
    text += '\n';
  }
  return text;
}

namespace {

void write_records(const std::string& folder, const Recorders& all) {
  make_folders("flight recorder", folder);
  if (all.empty()) return;
  const double now = seconds_since_epoch();
  const std::string trace_path = file_of(folder, all.front()->rank(), ".json");
  core::TraceFile trace(trace_path);
  double zero = now;
  for (const auto& recorder : all) {
    for (const FlightCall& call : recorder->calls()) zero = std::min(zero, call.asked);
  }
  for (const auto& recorder : all) {
    OutputFile table(file_of(folder, recorder->rank(), ".txt"));
    table.write(recorder->table());
    table.commit();
    const std::string rank = "rank " + std::to_string(recorder->rank());
    trace.name_process(recorder->rank(), rank);
    std::vector<double> ends;  // of the last call on each track, so that those under way together
                               // lie beside each other
    for (const FlightCall& call : recorder->calls()) {
      const double end = call.done == 0.0 ? now : call.done;
      const auto free =
          std::find_if(ends.begin(), ends.end(), [&](double last) { return last <= call.asked; });
      const auto track = static_cast<int>(free - ends.begin());
      if (free == ends.end()) {
        trace.name_thread(recorder->rank(), track, "calls");
        ends.push_back(end);
      } else {
        *free = end;
      }
      trace.span(recorder->rank(), track,
                 std::string(name(call.op)) + (call.done == 0.0 ? ", not done" : ""),
                 call.asked - zero, end - call.asked,
                 {{"call", static_cast<int64_t>(call.number)},
                  {"group", call.axis},
                  {"unit", call.unit},
                  {"bytes sent", call.bytes}});
    }
  }
  trace.close();
}

}  // namespace

void write_flight_records(const std::string& folder) { write_records(folder, recorders()); }

FlightRecorderScope::FlightRecorderScope(std::shared_ptr<FlightRecorder> recorder)
    : recorder_(std::move(recorder)) {
  const std::lock_guard lock(flights_mutex);
  flights().push_back(recorder_);
  failure_written = false;
  listen_for_signal();
}

FlightRecorderScope::~FlightRecorderScope() {
  const std::lock_guard lock(flights_mutex);
  std::erase(flights(), recorder_);
}

void write_flight_records_of_failure() noexcept {
  const char* const folder = flight_folder();
  if (folder == nullptr) return;
  // Whoever comes first has the recorders of all: a rank that comes later, and then ends, waits
  // here.
  std::unique_lock lock(flights_mutex);
  if (std::exchange(failure_written, true)) return;
  const Recorders all = sorted_recorders();
  lock.unlock();
  write_to(folder, "flight recorder", all);
}

}  // namespace hero::dist
