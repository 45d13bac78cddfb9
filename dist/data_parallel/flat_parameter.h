#pragma once
// FlatParameter: the parameters of one unit, concatenated in one array, and this rank's shard of
// it.
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

/// [note: versions of gathered parameters] A gathering writes the flat parameter anew. If no shard
/// has changed, the values are the same as before, and tensors that autograd saved remain valid; if
/// one has, backward of a graph recorded before throws an Error, as after any in-place write.
struct FlatParameter {
  ChunkCounts counts;  ///< elements of each rank's shard
  Chunk own;           ///< the elements of `whole` that this rank's shard holds
  Array shard;         ///< [own.count]: their values
  /// [counts.total()]: the values of all ranks' shards, once they are gathered, in the dtype and on
  /// the device of the computation.
  Array whole;
  /// True: the shard has memory of its own, and `whole` has memory only while it is gathered.
  /// False: `whole` always has memory, and the shard is a slice of it or, if shards are offloaded,
  /// a copy.
  bool owns_storage = false;

  /// This rank's elements of `whole`.
  Array own_of_whole() const { return elements(whole, own); }
  /// Called after both arrays got new memory. `is_true`: if `whole` has memory, it holds the values
  /// of all shards.
  void set_true(bool is_true) {
    whole_version_ = whole.storage().version() - (owns_storage || is_true ? 0 : 1);
    shard_version_ = shard.storage().version() - (is_true && !owns_storage ? 0 : 1);
  }
  /// Whether a shard was written since `whole` had its values. The local shard tells it for all
  /// ranks, since all ranks write their shards in the same steps.
  bool is_changed() const { return shard.storage().version() != shard_version_; }
  /// Whether a shard was written since the current or last gathering began.
  bool is_stale() const { return owns_storage && shard.storage().version() != gathered_version_; }
  /// Called when a gathering begins.
  void begin_gather() { gathered_version_ = shard.storage().version(); }
  /// Called when the gathering has ended.
  void end_gather() {
    if (owns_storage && !is_changed()) return whole.storage().restore_version(whole_version_);
    shard_version_ = shard.storage().version();
    whole_version_ = whole.storage().version();
  }
  /// Whether `whole` was written since the last gathering; returns true only once for each write.
  bool take_written() {
    const uint32_t now = whole.storage().version();
    return std::exchange(whole_version_, now) != now;
  }
  /// Copies this rank's elements of `whole` into the shard, after `whole` was written on every
  /// rank.
  void take_over_own() {
    copy_values(own_of_whole(), shard);
    shard.storage().bump_version();  // also where this rank's part is empty: all must know
    shard_version_ = gathered_version_ = shard.storage().version();
  }

 private:
  uint32_t shard_version_ = 0;     // version of `shard` when `whole` last had its values
  uint32_t whole_version_ = 0;     // version of `whole` at that time
  uint32_t gathered_version_ = 0;  // version of `shard` when the last gathering began
};

}  // namespace hero::dist
