#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

namespace {

// Never destroyed: arrays with static lifetime may come back after everything else is gone.
struct Gate {
  std::mutex mutex;
  std::vector<AwaitedWork*> works;
};
Gate& gate() {
  static auto& only = *new Gate;
  return only;
}

std::atomic<BeforeFree> told_before_free = nullptr;
std::atomic<int> sharing = 0;  // objects of GpusShared

}  // namespace

AwaitedWork::AwaitedWork(int device, std::function<bool()> agreed)
    : device_(device), agreed_(std::move(agreed)) {
  const std::lock_guard lock(gate().mutex);
  gate().works.push_back(this);
}

AwaitedWork::~AwaitedWork() {
  const std::lock_guard lock(gate().mutex);
  std::erase(gate().works, this);
}

void AwaitedWork::opens_when(std::function<bool()> agreed) {
  const std::lock_guard lock(gate().mutex);
  agreed_.swap(agreed);
}

bool AwaitedWork::closes(int device) const {
  return (device < 0 || device == device_) && !(agreed_ && agreed_());
}

InFreeGate::InFreeGate(int device) : lock_(gate().mutex) {
  const auto& works = gate().works;
  const auto closes = [device](const AwaitedWork* work) { return work->closes(device); };
  if (std::any_of(works.begin(), works.end(), closes)) lock_.unlock();
}

GpusShared::GpusShared() { ++sharing; }
GpusShared::~GpusShared() { --sharing; }

InCallGate::InCallGate(int device) {
  while (sharing > 0 && !capturing()) {
    here_.emplace(device);
    if (*here_) return;
    here_.reset();
    if (!before_free(device, FreeWait::open)) return;
  }
}

void set_before_free(BeforeFree wait) { told_before_free = wait; }
bool before_free(int device, FreeWait wait) noexcept {
  const BeforeFree tell = told_before_free;
  return tell == nullptr || tell(device, wait);
}

}  // namespace hero::cuda
