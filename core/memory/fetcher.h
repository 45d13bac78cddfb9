#pragma once
// Fetcher: restores the bytes of released storages when they are needed.
#include <hero/core/array.h>

namespace hero::core {

/// Has the bytes of a storage while it is released. Any thread may ask for them.
class Fetcher {
 public:
  Fetcher() = default;
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;
  virtual ~Fetcher() = default;
  /// Restores the bytes of the storage, and waits until they are there; they stay.
  virtual void fetch() = 0;
  /// Does the same, and releases the bytes of other storages that it restored by this call before.
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
/// The number of references to the storage, by which a caller that knows some of them finds out
/// whether there are others.
uint32_t reference_count(const Storage& storage);

/// \name For a program that uses many arrays, one after the other
/// Arrays whose storages have their bytes, and those without a fetcher, are left as they are.
/// \{
/// True if the array's bytes are not in memory, and there is a fetcher.
bool is_away(const Array& array);
/// Restores the bytes. Everything that needs the bytes of earlier arrays must be done.
void fetch_next(const Array& array);
/// Releases everything that the calling thread restored since it last called this.
void put_back();
/// \}

}  // namespace hero::core
