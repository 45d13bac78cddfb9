#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>

#include <unistd.h>

#include <hero/nn/training/stop.h>

namespace hero::nn {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};
constexpr char kNote[] = "\nstopping at the end of this step; once more to end at once\n";

// `timeout` and some launchers send a signal twice, to the process and to its group; a person needs
// longer.
constexpr int64_t kTwiceNanoseconds = 100'000'000;

// A handler can reach nothing but what is global.
std::atomic<int> caught{0};
std::atomic<int64_t> caught_at{0};
std::mutex install;
int signals = 0;  // StopSignals that live
std::array<struct sigaction, kSignals.size()> old_actions;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t nanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void note_signal(int number) {
  const int error = errno;
  int none = 0;
  if (caught.compare_exchange_strong(none, number)) {
    caught_at = nanoseconds();
    if (::write(STDERR_FILENO, kNote, sizeof kNote - 1) < 0) errno = error;
  } else if (nanoseconds() - caught_at > kTwiceNanoseconds) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
    ::raise(number);  // delivered when this handler returns
  }
  errno = error;
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard<std::mutex> lock(install);
  if (signals++ > 0) return;
  caught = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &old_actions[i]);
}

StopSignal::~StopSignal() {
  const std::lock_guard<std::mutex> lock(install);
  if (--signals > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_actions[i], nullptr);
}

int StopSignal::signal() const {
  const int agreed = agreed_;
  return agreed != 0 ? agreed : caught.load();
}

}  // namespace hero::nn
