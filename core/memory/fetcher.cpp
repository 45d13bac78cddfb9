#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hero/core/memory/fetcher.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

struct Fetchers {
  std::mutex mutex;
  std::unordered_map<const Storage*, Fetcher*> by_storage;
};

// Most programs have none, and ask for no lock.
constinit std::atomic<size_t> fetcher_count = 0;

Fetchers& fetchers() {
  static auto* value = new Fetchers;  // storages of static lifetime may end later
  return *value;
}
[[maybe_unused]] const bool kFetchersAtFork =
    at_fork([] { fetchers().mutex.lock(); }, [] { fetchers().mutex.unlock(); },
            [] { fetchers().mutex.unlock(); });  // see [note: forks]

// A derived class may name the protected count, and so read that of any object.
struct CountOf : Counted {
  static uint32_t read(const Counted& object) {
    return (object.*&CountOf::count)().load(std::memory_order_acquire);
  }
};

// Of which the calling thread brought something.
thread_local std::vector<const Storage*> brought;

}  // namespace

void set_fetcher(const Storage& storage, Fetcher* fetcher) {
  Fetchers& all = fetchers();
  const std::lock_guard lock(all.mutex);
  if (fetcher != nullptr) {
    all.by_storage[&storage] = fetcher;
  } else {
    all.by_storage.erase(&storage);
  }
  fetcher_count = all.by_storage.size();
}

bool has_fetchers() { return fetcher_count != 0; }

Fetcher* fetcher_of(const Storage& storage) {
  if (!has_fetchers()) return nullptr;
  Fetchers& all = fetchers();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_storage.find(&storage);
  return found == all.by_storage.end() ? nullptr : found->second;
}

uint32_t reference_count(const Storage& storage) { return CountOf::read(storage); }

bool is_away(const Array& array) {
  return array.storage().released() && fetcher_of(array.storage()) != nullptr;
}

void fetch_next(const Array& array) {
  if (!is_away(array)) return;
  const Storage* const storage = &array.storage();
  if (std::find(brought.begin(), brought.end(), storage) == brought.end()) {
    brought.push_back(storage);
  }
  fetcher_of(*storage)->fetch_next();
}

void put_back() {
  for (const Storage* storage : std::exchange(brought, {})) {
    if (Fetcher* const fetcher = fetcher_of(*storage)) fetcher->put_back();
  }
}

}  // namespace hero::core
