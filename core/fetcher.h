#pragma once
// Fetcher: who has the bytes of storages that are released, and brings them when they are asked
// for.
#include <hero/core/array.h>

namespace hero::core {

/// Who has the bytes of one storage while it is released. Any thread may ask.
class Fetcher {
 public:
  Fetcher() = default;
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;
  virtual ~Fetcher() = default;
  /// Returns when the storage has its bytes; they stay.
  virtual void fetch() = 0;
  /// The same, and lets go of those of other storages that it brought so before.
  virtual void bring() = 0;
  /// Lets go of all that was brought.
  virtual void put_back() = 0;
  /// The storage ends and asks nobody any more; called where its last reference went.
  virtual void ended() {}
};

/// From now on an array that is asked for the bytes of the storage, which is released, asks this
/// one first; null: nobody, as before. Must be set to null before the fetcher ends.
void set_fetcher(const Storage& storage, Fetcher* fetcher);
/// Who was set; null: nobody.
Fetcher* fetcher_of(const Storage& storage);
/// How many references to the storage there are, which tells one who knows some of them whether
/// there are others.
uint32_t reference_count(const Storage& storage);

/// \name For a program that goes over many arrays, one after the other
/// Arrays whose storages have their bytes, and those that nobody fetches, are left as they are.
/// \{
/// The array's bytes are not in memory, and somebody fetches them.
bool is_away(const Array& array);
/// Brings them. What needs the bytes of arrays that came before must be done.
void bring(const Array& array);
/// Lets go of all that the calling thread brought since it did so last.
void put_back();
/// \}

}  // namespace hero::core
