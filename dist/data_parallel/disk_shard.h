#pragma once
// DiskShard: keeps the shards of a unit in a file while nothing computes with them.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hero/core/memory/fetcher.h>
#include <hero/core/swap_file.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

class DiskShard;

/// The units of one outermost module whose shards lie in a file, in the order in which an optimizer
/// steps them.
struct DiskOrder {
  std::vector<DiskShard*> shards = {};
  /// The shard that is being written to the file during an optimizer's step.
  DiskShard* leaving = nullptr;
};

struct DiskShardOptions {
  std::string unit;  ///< name of the unit, for errors
  /// True: once fetched, it stays in memory until the end of the step (the root's unit).
  bool stays = false;
  std::function<bool()> is_stepped = {};  ///< whether the next optimizer step updates it
};

/// The storage of one unit's shards, in a slot of a core::SwapFile while it is not needed. The
/// storage has its bytes from fetch(), or from the first access of an array to them, until leave().
/// Reads and writes of the file use a second storage, so no array sees bytes that have not arrived
/// yet. `traffic` counts the bytes read and written, in whole blocks.
class DiskShard : public core::Fetcher {
 public:
  /// Writes the bytes to the file. Throws an Error if the file has no room.
  DiskShard(core::SwapFile& file, core::Ref<core::Storage> storage, DiskShardOptions options,
            std::shared_ptr<DiskOrder> order, Traffic& traffic);
  /// If the storage is offloaded, it stays without bytes for good.
  ~DiskShard() override;

  /// Called when its unit becomes part of a larger sharded module: from now on its name is `unit`,
  /// and it takes part in the order of that module.
  void nest(const std::string& unit, std::shared_ptr<DiskOrder> order);
  bool is_offloaded() const { return storage_->released(); }
  /// Begins to read the bytes, for a later fetch().
  void begin_fetch();
  /// Puts the bytes into the storage. Throws an Error if the disk fails or returns other bytes than
  /// were written.
  void fetch() override;
  /// Frees the bytes. If they have changed, they are written to the file in the background.
  void leave();
  /// Waits until they are written, and drops bytes that were read ahead but not used.
  void wait();

  void fetch_next() override;
  void put_back() override;

 private:
  void end_write();
  void end_read();

  std::mutex mutex_;
  core::Ref<core::Storage> storage_, travelling_;
  core::Swapped swapped_;  // the slot of travelling_ in the file
  DiskShardOptions options_;
  std::shared_ptr<DiskOrder> order_;
  Traffic& traffic_;
  uint32_t version_;  // version of storage_ when it was written to the file
  bool writing_ = false, reading_ = false;
};

}  // namespace hero::dist
