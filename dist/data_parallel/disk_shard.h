#pragma once
// DiskShard: a file as the place of shards that nobody computes with.
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
  DiskShard* leaving = nullptr;  ///< on its way to the file, in an optimizer's step
};

struct DiskShardOptions {
  std::string unit;    ///< its name, for errors
  bool stays = false;  ///< until the end of a step, once it was fetched: parameters of the root
  std::function<bool()> is_stepped = {};  ///< whether the next step needs it
};

/// The storage of one unit's shards, in a slot of a core::SwapFile while it is not needed. It has
/// its bytes from fetch(), or from the moment an array is asked for them, until leave(). What is on
/// its way lies in another storage, so nobody sees bytes that are not yet there. `traffic` counts
/// what is read and written, in whole blocks.
class DiskShard : public core::Fetcher {
 public:
  /// Writes the bytes; an Error where the file has no room.
  DiskShard(core::SwapFile& file, core::Ref<core::Storage> storage, DiskShardOptions options,
            std::shared_ptr<DiskOrder> order, Traffic& traffic);
  /// A storage that is offloaded stays released for good.
  ~DiskShard() override;

  /// Its unit belongs to a larger module, in whose order it takes part from now on.
  void nest(const std::string& unit, std::shared_ptr<DiskOrder> order);
  bool is_offloaded() const { return storage_->released(); }
  /// Begins to read, for a fetch() to come.
  void begin_fetch();
  /// An Error where the disk fails or gives other bytes than were written.
  void fetch() override;
  /// Lets the bytes go: they are written behind the caller's back, unless nobody changed them.
  void leave();
  /// Returns when they are written, and what was read and is not used is dropped.
  void wait();

  void fetch_next() override;
  void put_back() override;

 private:
  void end_write();
  void end_read();

  std::mutex mutex_;
  core::Ref<core::Storage> storage_, travelling_;
  core::Swapped swapped_;  // of travelling_
  DiskShardOptions options_;
  std::shared_ptr<DiskOrder> order_;
  Traffic& traffic_;
  uint32_t version_;  // of storage_ when it was written
  bool writing_ = false, reading_ = false;
};

}  // namespace hero::dist
