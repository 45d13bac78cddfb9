#include <mutex>
#include <unordered_map>

#include <hero/core/device/asking_backend.h>
#include <hero/core/memory/fetcher.h>
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

void ask_for(const Array& array) {
  if (array.defined() && array.numel() > 0 && is_away(array)) fetcher_of(array.storage())->fetch();
}
void ask_for(const Array* array) {
  if (array != nullptr) ask_for(*array);
}
void ask_for(std::span<const Array> arrays) {
  for (const Array& each : arrays) ask_for(each);
}
void ask_scores(const AttentionScores& scores) { ask_for_all(scores.mask, scores.bias); }
void ask_norm(const RowNorm& norm) {
  ask_for_all(norm.weight, norm.bias, norm.residual, norm.sum, norm.g_sum, norm.g_residual);
}

Backend& asking(Backend& inner) {
  const std::lock_guard lock(asking_mutex);
  return asking_backends().try_emplace(&inner, &inner).first->second;
}

}  // namespace hero::core
