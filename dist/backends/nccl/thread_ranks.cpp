#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/streams.cuh>
#include <hero/dist/backends/nccl/comm.h>
#include <hero/dist/backends/nccl/thread_ranks.h>
#include <hero/dist/backends/nccl/watchdog.h>

namespace hero::dist::nccl {
namespace {

struct Ranks {
  std::mutex mutex;
  std::vector<ThreadRank*> all;
};
Ranks& ranks() {
  static auto& only = *new Ranks;
  return only;
}

thread_local bool inside = false;  // what the wait itself waits for or frees does not wait again

class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// A thread that is no rank's, which saves a checkpoint for instance, can confirm nothing: it waits
// until the calls are known, as they will be without it.
void confirm_before_wait(int device) {
  if (inside) return;
  const std::vector<ThreadRank*> mine = ranks_of_thread(device);
  const Inside scope;
  if (mine.empty()) wait_until_known(device);
  for (ThreadRank* rank : mine) rank->confirm();
}

// A thread that is no rank's must not take what the GPU of a rank then holds for a result, either.
void check_after_wait(int device) {
  if (inside) return;
  const std::vector<ThreadRank*> mine = ranks_of_thread(device);
  if (mine.empty()) check_all_waited(device);
  for (ThreadRank* rank : mine) rank->check_waited();
}

// For a thread that is no rank's, which hears of no failure, and whose end a rank may wait for.
bool becomes(const std::function<bool()>& open) {
  const auto start = std::chrono::steady_clock::now();
  while (!open()) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() >= longest_timeout()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

bool wait_before_free(int device, cuda::FreeWait wait) noexcept {
  const auto open = [device, wait] {
    return wait == cuda::FreeWait::own_calls || static_cast<bool>(cuda::InFreeGate(device));
  };
  if (inside) return open();
  const std::vector<ThreadRank*> mine = ranks_of_thread(-1);
  const Inside scope;
  const bool came =
      mine.empty() ? becomes(open) : std::all_of(mine.begin(), mine.end(), [&](ThreadRank* rank) {
        return rank->wait_for_others(open);
      });
  destroy_retired();
  return came;
}

}  // namespace

ThreadRank::ThreadRank(int device, double timeout) : device_(device), timeout_(timeout) {
  cuda::set_before_free(&wait_before_free);
  cuda::set_before_wait(&confirm_before_wait);
  cuda::set_after_wait(&check_after_wait);
  cuda::count_rank(device_, 1);
  const std::lock_guard lock(ranks().mutex);
  ranks().all.push_back(this);
}

ThreadRank::~ThreadRank() {
  cuda::count_rank(device_, -1);
  const std::lock_guard lock(ranks().mutex);
  std::erase(ranks().all, this);
}

std::vector<ThreadRank*> ranks_of_thread(int device) {
  std::vector<ThreadRank*> mine;
  const std::lock_guard lock(ranks().mutex);
  for (ThreadRank* rank : ranks().all) {
    const bool there = device < 0 || rank->device_ == device;
    if (there && rank->thread_ == std::this_thread::get_id()) mine.push_back(rank);
  }
  return mine;
}

void check_all_waited(int device) {
  const std::lock_guard lock(ranks().mutex);
  for (ThreadRank* rank : ranks().all) {
    if (device < 0 || rank->device_ == device) rank->check_waited();
  }
}

double longest_timeout() {
  double longest = 0;
  const std::lock_guard lock(ranks().mutex);
  for (const ThreadRank* rank : ranks().all) longest = std::max(longest, rank->timeout_);
  return longest;
}

}  // namespace hero::dist::nccl
