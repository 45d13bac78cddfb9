#include <algorithm>
#include <mutex>
#include <vector>

#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/dist/engines/nccl/free_gate.h>
#include <hero/dist/engines/nccl/watchdog.h>

namespace hero::dist::nccl {
namespace {

struct Gates {
  std::mutex mutex;
  std::vector<FreeGate*> open;
};
Gates& gates() {
  static auto& all = *new Gates;
  return all;
}

thread_local bool inside = false;  // what the wait itself frees does not wait again

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
  const std::vector<FreeGate*> mine = gates_of_thread(device);
  const Inside scope;
  if (mine.empty()) wait_until_known(device);
  for (FreeGate* gate : mine) gate->confirm();
}

}  // namespace

FreeGate::FreeGate(int device) : device_(device) {
  cuda::set_before_free(&all_have_asked);
  cuda::set_before_wait(&confirm_before_wait);
  const std::lock_guard lock(gates().mutex);
  gates().open.push_back(this);
}

FreeGate::~FreeGate() {
  const std::lock_guard lock(gates().mutex);
  std::erase(gates().open, this);
}

std::vector<FreeGate*> gates_of_thread(int device) {
  std::vector<FreeGate*> mine;
  const std::lock_guard lock(gates().mutex);
  for (FreeGate* gate : gates().open) {
    const bool there = device < 0 || gate->device_ == device;
    if (there && gate->thread_ == std::this_thread::get_id()) mine.push_back(gate);
  }
  return mine;
}

bool all_have_asked(int device, cuda::FreeWait wait) noexcept {
  if (inside) return true;
  const std::vector<FreeGate*> mine = gates_of_thread(device);
  const Inside scope;
  return std::all_of(mine.begin(), mine.end(),
                     [wait](FreeGate* gate) { return gate->others_have_asked(wait); });
}

}  // namespace hero::dist::nccl
