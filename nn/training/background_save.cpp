#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/io/no_signals.h>
#include <hero/core/ledger.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/threads/at_fork.h>
#include <hero/core/threads/thread_state.h>
#include <hero/nn/training/background_save.h>

namespace hero::nn {
namespace {

// Whether only this array refers to its storage, and the storage has no other bytes.
bool is_alone(const core::Array& array) {
  return array.device() == kCpu && array.is_contiguous() && array.storage_ref()->unique() &&
         array.storage().bytes() == array.nbytes();
}

core::Array copy_to_host(const core::Array& array) {
  if (array.device().type != DeviceType::cuda) return array.clone();
  core::Accelerator& accelerator = core::accelerator("checkpoint", array.device());
  core::Ref<core::Storage> storage = core::Storage::create_released(array.nbytes(), kCpu);
  {
    const core::HostMemoryScope pinned(accelerator.host_memory());
    storage->refill();
  }
  core::Array copy(std::move(storage), array.shape(), contiguous_strides(array.shape()), 0,
                   array.dtype());
  accelerator.backend(array.device().index).run(core::call::Copy{array, copy});
  return copy;
}

}  // namespace

void take_copies(std::vector<core::NamedArray>& arrays) {
  const MemoryScope tagged(MemoryTag::other);
  for (auto& [name, array] : arrays) {
    check(array.defined(), "save_safetensors: tensor '", name, "' is undefined");
    check(array.device() != kMeta, "save_safetensors: tensor '", name,
          "' is on meta and has no values");
    if (is_alone(array)) {
      array.storage().retag(MemoryTag::other);
    } else {
      array = copy_to_host(array);
    }
  }
}

struct BackgroundWork::State {
  const pid_t process = ::getpid();
  const core::ThreadState caller = core::ThreadState::of_going_on();
  Work work;
  std::thread thread;
  std::atomic<bool> hurried = false;
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::string error;

  void run() {
    std::string said;
    try {
      const core::ThreadState::Scope use(caller);
      work([this] { return hurried.load(); });
    } catch (const std::exception& failure) {
      said = failure.what();
    } catch (...) {
      said = "an exception that is no std::exception";
    }
    work = nullptr;
    const std::lock_guard lock(mutex);
    error = std::move(said);
    done = true;
    ended.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    ended.wait(lock, [this] { return done; });
  }

  // [note: the end of a process] exit() destroys statics while other threads run, so what they
  // do must have ended. Those that have not are in this list.
  struct Live {
    std::mutex mutex;
    std::vector<std::shared_ptr<State>> states;
  };
  static Live& live();
  static void wait_for_all();
  static const bool kLiveAtFork;
};

BackgroundWork::State::Live& BackgroundWork::State::live() {
  static Live* const all = [] {
    auto* made = new Live;  // leaked on purpose: it is used at the end of the process
    std::atexit(wait_for_all);
    return made;
  }();
  return *all;
}

[[maybe_unused]] const bool BackgroundWork::State::kLiveAtFork =
    core::at_fork([] { live().mutex.lock(); }, [] { live().mutex.unlock(); },
                  [] { live().mutex.unlock(); });  // see [note: forks]

void BackgroundWork::State::wait_for_all() {
  Live& all = live();
  const std::lock_guard lock(all.mutex);
  for (const auto& state : all.states) {
    if (state->process != ::getpid()) continue;
    state->hurried = true;
    state->wait();
  }
}

BackgroundWork::BackgroundWork(const char* op, Work work) : state_(std::make_shared<State>()) {
  state_->work = std::move(work);
  State::Live& all = State::live();
  const std::lock_guard lock(all.mutex);
  all.states.push_back(state_);
  try {
    const core::NoSignals no_signals;
    state_->thread = std::thread([state = state_] { state->run(); });
  } catch (const std::system_error& error) {
    all.states.pop_back();
    fail(op, ": no thread can be started: ", error.what());
  }
}

BackgroundWork::~BackgroundWork() {
  if (!is_mine()) return;  // the list has what the parent's thread may be about to free
  state_->wait();
  state_->thread.join();
  State::Live& all = State::live();
  const std::lock_guard lock(all.mutex);
  std::erase(all.states, state_);
}

std::string BackgroundWork::wait() {
  if (!is_mine()) return "";
  state_->wait();
  return state_->error;
}

bool BackgroundWork::is_mine() const { return state_->process == ::getpid(); }

}  // namespace hero::nn
