#include <mutex>
#include <unordered_map>

#include <hero/core/device/asking_backend.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

constinit std::mutex asking_mutex;

std::unordered_map<Backend*, AskingBackend>& asking_backends() {
  static auto* const all = new std::unordered_map<Backend*, AskingBackend>;  // as backends, leaked
  return *all;
}
[[maybe_unused]] const bool kAskingAtFork = at_fork(
    [] {
      asking_mutex.lock();
      asking_backends();
    },
    [] { asking_mutex.unlock(); }, [] { asking_mutex.unlock(); });  // see [note: forks]

}  // namespace

Backend& asking(Backend& inner) {
  const std::lock_guard lock(asking_mutex);
  return asking_backends().try_emplace(&inner, &inner).first->second;
}

}  // namespace hero::core
