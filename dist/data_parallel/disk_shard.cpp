#include <algorithm>
#include <cstring>
#include <utility>

#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/profile/kernel_cost.h>
#include <hero/dist/data_parallel/disk_shard.h>

namespace hero::dist {
namespace {

int64_t in_whole_blocks(int64_t bytes) {
  constexpr int64_t kBlock = core::SwapFile::kBlock;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// A released storage of the same size and device as another one.
core::Ref<core::Storage> released_like(const core::Storage& storage) {
  const MemoryScope tag(storage.tag());
  return core::Storage::create_released(storage.bytes(), storage.device());
}

// From one storage to the other, which had none. Where both are planned that takes time alone.
void move_bytes(core::Storage& from, core::Storage& to) {
  to.refill();
  const Device device = from.device();
  if (from.data() != nullptr) {
    std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
  } else if (core::CostMeter* const meter = core::current_cost_meter(); meter && from.bytes() > 0) {
    const bool on_host = device == core::kPlannedHost;
    meter->charge({.kind = core::KernelKind::copy,
                   .bytes = 2 * from.bytes(),
                   .place = on_host ? core::KernelPlace::host : core::KernelPlace::device});
  }
  from.release();
}

}  // namespace

DiskShard::DiskShard(core::SwapFile& file, core::Ref<core::Storage> storage,
                     DiskShardOptions options, std::shared_ptr<DiskOrder> order, Traffic& traffic)
    : storage_(std::move(storage)),
      travelling_(released_like(*storage_)),
      swapped_(file, travelling_),
      options_(std::move(options)),
      order_(std::move(order)),
      traffic_(traffic),
      version_(storage_->version() - 1) {
  leave();
  wait();
  core::set_fetcher(*storage_, this);
  order_->shards.push_back(this);
}

DiskShard::~DiskShard() {
  core::set_fetcher(*storage_, nullptr);
  std::erase(order_->shards, this);
  if (order_->leaving == this) order_->leaving = nullptr;
}

void DiskShard::nest(const std::string& unit, std::shared_ptr<DiskOrder> order) {
  wait();
  std::erase(order_->shards, this);
  if (order_->leaving == this) order_->leaving = nullptr;
  order_ = std::move(order);
  order_->shards.push_back(this);
  options_.unit = unit;
  options_.stays = false;
}

// Bytes that could not be written are where they were.
void DiskShard::end_write() {
  if (!std::exchange(writing_, false)) return;
  try {
    swapped_.wait();
  } catch (const Error& error) {
    move_bytes(*travelling_, *storage_);
    version_ = storage_->version() - 1;
    fail("offload: the shard of unit '", options_.unit, "' stays in memory: ", error.what());
  }
}

void DiskShard::end_read() {
  if (!std::exchange(reading_, false)) return;
  try {
    swapped_.wait();
  } catch (const Error& error) {
    fail("offload: the shard of unit '", options_.unit, "' is lost: ", error.what(),
         "; resume from a checkpoint");
  }
}

void DiskShard::begin_fetch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!storage_->released() || reading_ || storage_->bytes() == 0) return;
  end_write();
  swapped_.begin_read();
  reading_ = true;
  traffic_.move(Transfer::from_disk, in_whole_blocks(storage_->bytes()));
}

void DiskShard::fetch() {
  begin_fetch();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!storage_->released()) return;
  end_read();
  move_bytes(*travelling_, *storage_);
}

void DiskShard::leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (storage_->released()) return;
  if (storage_->bytes() == 0 || version_ == storage_->version()) return storage_->release();
  move_bytes(*storage_, *travelling_);
  version_ = storage_->version();
  swapped_.begin_write();
  writing_ = true;
  traffic_.move(Transfer::to_disk, in_whole_blocks(storage_->bytes()));
}

void DiskShard::wait() {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_write();
  if (!reading_) return;
  end_read();
  swapped_.drop();
}

// [note: units in a step] Parameters come in the order of the modules, so those of a unit come
// together and each unit is read once and written once; but for the root's, whose parameters lie
// before and behind all others: it stays until the end. Beside it one unit is in memory, the next
// is on its way in and the last on its way out.
void DiskShard::fetch_next() {
  const auto& shards = order_->shards;
  for (DiskShard* const other : shards) {
    if (other == this || other->options_.stays || other->is_offloaded()) continue;
    if (order_->leaving != nullptr) order_->leaving->wait();
    other->leave();
    order_->leaving = other;
  }
  fetch();
  if (options_.stays) return;
  const auto own = std::find(shards.begin(), shards.end(), this);
  const auto next = std::find_if(own + 1, shards.end(), [](const DiskShard* other) {
    return !other->options_.stays && other->options_.is_stepped();
  });
  if (next != shards.end()) (*next)->begin_fetch();
}

void DiskShard::put_back() {
  order_->leaving = nullptr;
  for (DiskShard* const each : order_->shards) each->leave();
  for (DiskShard* const each : order_->shards) each->wait();
}

}  // namespace hero::dist
