#include <mutex>
#include <unordered_map>

#include <hero/core/device/fetching_backend.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

// [note: fetched] What was offloaded comes back when a kernel reads or writes it. A fetcher may
// take some time over that, and the storage's address is known before its bytes are there. So the
// arrays of a call are fetched here, on the thread that makes the call, and not by the threads that
// share its work.
class FetchingBackend final : public RunsAround<FetchingBackend> {
 public:
  explicit FetchingBackend(Backend* inner) : inner_(*inner) {}
  template <class Call>
  ResultOf<Call> around(const Call& call) {
    fetch_arrays(call);
    return inner_.run(call);
  }

 private:
  Backend& inner_;
};

constinit std::mutex fetching_mutex;

std::unordered_map<Backend*, FetchingBackend>& fetching_backends() {
  static auto* const all =
      new std::unordered_map<Backend*, FetchingBackend>;  // leaked, as backends
  return *all;
}
[[maybe_unused]] const bool kFetchingAtFork = at_fork(
    [] {
      fetching_mutex.lock();
      fetching_backends();
    },
    [] { fetching_mutex.unlock(); }, [] { fetching_mutex.unlock(); });  // see [note: forks]

}  // namespace

void fetch(const Array& array) {
  if (array.defined() && array.numel() > 0 && is_away(array)) fetcher_of(array.storage())->fetch();
}
void fetch(const Array* array) {
  if (array != nullptr) fetch(*array);
}
void fetch(std::span<const Array> arrays) {
  for (const Array& each : arrays) fetch(each);
}
void fetch(std::span<const Operand> operands) {
  for (const Operand& each : operands) fetch(each.array);
}

Backend& fetching(Backend& inner) {
  const std::lock_guard lock(fetching_mutex);
  return fetching_backends().try_emplace(&inner, &inner).first->second;
}

}  // namespace hero::core
