#pragma once
// FlatParameter: the parameters of one unit, one behind the other in one array, and the part of it
// that this rank keeps.
#include <utility>

#include <hero/core/array.h>
#include <hero/core/device/backend.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// Writes the values of `from` over those of `to`, in the dtype and on the device of `to`.
inline void copy_values(const Array& from, const Array& to) {
  if (from.numel() == 0) return;
  // only a device's own backend knows how to reach its memory
  core::backend(to.device().type == DeviceType::cpu ? from.device() : to.device())
      .run(core::call::Copy{from, to});
  to.storage().bump_version();
}

/// These elements of an array of one dimension.
inline Array elements(const Array& array, const Chunk& place) {
  return array.slice(0, place.begin, place.begin + place.count);
}

/// [note: versions of gathered parameters] A gathering writes the flat parameter anew. Where no
/// shard changed, these are the values that it had, and what autograd saved of them is good; where
/// one did, a graph recorded before is refused, as after any in-place write.
struct FlatParameter {
  ChunkCounts counts;  ///< of each rank's shard
  Chunk own;           ///< which elements this rank's shard has
  Array shard;         ///< [own.count]: their values
  /// [counts.total()]: the values of all ranks' shards, once they are gathered, in the dtype and on
  /// the device of the computation.
  Array whole;
  /// The shard has memory of its own, and `whole` has some only while it is gathered. Otherwise
  /// `whole` stays, and the shard is a slice of it or, where shards are offloaded, a copy.
  bool owns_storage = false;

  /// This rank's elements of `whole`.
  Array own_of_whole() const { return elements(whole, own); }
  /// New memory was given to both; `is_true`: `whole` has the values of all shards, if it has any.
  void set_true(bool is_true) {
    whole_version_ = whole.storage().version() - (owns_storage || is_true ? 0 : 1);
    shard_version_ = shard.storage().version() - (is_true && !owns_storage ? 0 : 1);
  }
  /// A shard was written since `whole` had its values: ranks write theirs in the same steps.
  bool is_changed() const { return shard.storage().version() != shard_version_; }
  /// A shard was written since the gathering began that is under way, or was the last.
  bool is_stale() const { return owns_storage && shard.storage().version() != gathered_version_; }
  /// A gathering begins.
  void begin_gather() { gathered_version_ = shard.storage().version(); }
  /// It has ended.
  void end_gather() {
    if (owns_storage && !is_changed()) return whole.storage().restore_version(whole_version_);
    shard_version_ = shard.storage().version();
    whole_version_ = whole.storage().version();
  }
  /// Whether `whole` was written since the last gathering; says so once for each write.
  bool take_written() {
    const uint32_t now = whole.storage().version();
    return std::exchange(whole_version_, now) != now;
  }
  /// The shard gets this rank's elements of `whole`, which was written on every rank.
  void take_over_own() {
    copy_values(own_of_whole(), shard);
    shard.storage().bump_version();  // also where this rank's part is empty: all must know
    shard_version_ = gathered_version_ = shard.storage().version();
  }

 private:
  uint32_t shard_version_ = 0;     // of `shard` when `whole` last had its values
  uint32_t whole_version_ = 0;     // of `whole` then
  uint32_t gathered_version_ = 0;  // of `shard` when a gathering began
};

}  // namespace hero::dist
