#pragma once
// Fetcher: restores the bytes of released storages when they are needed.
#include <hero/core/array.h>

namespace hero::core {

/// Holds the bytes of a storage elsewhere while the storage is released. Any thread may call it.
class Fetcher {
 public:
  Fetcher() = default;
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;
  virtual ~Fetcher() = default;
  /// Restores the bytes of the storage, waits until they are there, and leaves them there.
  virtual void fetch() = 0;
  /// Does the same, and releases the bytes of other storages that earlier calls of fetch_next()
  /// restored.
  virtual void fetch_next() = 0;
  /// Releases all bytes that fetch_next() restored.
  virtual void put_back() = 0;
  /// Called when the storage is destroyed.
  virtual void ended() {}
};

/// From now on, if the bytes of the storage are needed while it is released, this fetcher restores
/// them; null removes it. It must be set to null before the fetcher is destroyed.
void set_fetcher(const Storage& storage, Fetcher* fetcher);
/// The fetcher of the storage; null if there is none.
Fetcher* fetcher_of(const Storage& storage);
/// Whether any storage has a fetcher.
bool has_fetchers();
/// The number of references to the storage. A caller that knows of some of them finds out whether
/// there are others.
uint32_t reference_count(const Storage& storage);

/// \name For a program that uses many arrays, one after the other
/// These leave arrays as they are whose storages have their bytes, or have no fetcher.
/// \{
/// True if the array's bytes are not in memory, and there is a fetcher.
bool is_away(const Array& array);
/// Restores the array's bytes, and may release those of arrays before. All work on arrays before
/// must have completed.
void fetch_next(const Array& array);
/// Releases all bytes that the calling thread has restored by fetch_next() since its last
/// put_back().
void put_back();
/// \}

}  // namespace hero::core
