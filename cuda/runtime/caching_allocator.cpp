#include <algorithm>
#include <functional>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/cuda/runtime/caching_allocator.h>

namespace hero::cuda {

namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// What is left of a larger block becomes one of its own where somebody may want it.
bool worth_splitting(int64_t rest, bool small) {
  return small ? rest >= CachingAllocator::kRounding : rest > CachingAllocator::kSmallBlock;
}

}  // namespace

bool CachingAllocator::Order::operator()(const Block* a, const Block* b) const {
  const std::less<const void*> below;
  if (a->segment->stream != b->segment->stream)
    return below(a->segment->stream, b->segment->stream);
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return below(a->at, b->at);
}
bool CachingAllocator::Order::operator()(const Block* a, const Wanted& b) const {
  const StreamId stream = a->segment->stream;
  return stream != b.stream ? std::less<const void*>()(stream, b.stream) : a->bytes < b.bytes;
}

CachingAllocator::CachingAllocator(Upstream& upstream, bool caching) : upstream_(upstream) {
  own_.cached = caching;
}

CachingAllocator::~CachingAllocator() {
  collect(true);
  upstream_.before_free();
  for (const auto& [segment, owner] : segments_) {
    upstream_.free(segment->at);
    for (const Block* block = segment->first; block;) delete std::exchange(block, block->after);
  }
}

void* CachingAllocator::allocate(int64_t bytes, StreamId stream) {
  std::unique_lock lock(mutex_);
  Pool& pool = pool_for(stream);
  const Wanted wanted{stream, pool.cached ? round_up(bytes, kRounding) : bytes};
  const bool small = wanted.bytes <= kSmallBlock;
  if (routes_.empty()) collect(false);
  free_late();
  Block* block = take(pool, wanted, small);
  if (!block) block = new_segment(pool, wanted, small, lock);
  while (!block) {
    lock.unlock();
    const bool can_go = upstream_.before_free();
    lock.lock();
    block = take(pool, wanted, small);  // others may have freed one meanwhile
    if (block) break;
    const bool all_went = give_back();
    block = new_segment(pool, wanted, small, lock);
    if (!block && (all_went || !can_go)) out_of_memory(wanted.bytes);
  }
  in_use_.emplace(block->at, block);
  block->in_use = true;
  if (worth_splitting(block->bytes - wanted.bytes, small)) split(block, wanted.bytes);
  ++stats_.allocations;
  stats_.allocated += block->bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return block->at;
}

CachingAllocator::Pool& CachingAllocator::pool_for(StreamId stream) {
  const auto route = routes_.find(stream);
  return route == routes_.end() ? own_ : *route->second;
}

CachingAllocator::Block* CachingAllocator::take(Pool& pool, const Wanted& wanted, bool small) {
  // Their sizes are not rounded: what is left of one would begin at an odd address.
  if (!pool.cached) return nullptr;
  FreeBlocks& blocks = pool.blocks(small);
  const auto found = blocks.lower_bound(wanted);
  if (found == blocks.end() || (*found)->segment->stream != wanted.stream) return nullptr;
  Block* block = *found;
  blocks.erase(found);
  return block;
}

CachingAllocator::Block* CachingAllocator::new_segment(Pool& pool, const Wanted& wanted, bool small,
                                                       std::unique_lock<std::mutex>& lock) {
  const int64_t bytes = !pool.cached ? wanted.bytes
                        : small      ? kSmallSegment
                                     : round_up(wanted.bytes, kSmallSegment);
  lock.unlock();
  void* memory = upstream_.allocate(bytes);
  lock.lock();
  if (!memory) return nullptr;
  auto* at = static_cast<std::byte*>(memory);
  auto segment =
      std::make_unique<Segment>(Segment{at, bytes, wanted.stream, &pool, small, nullptr});
  segment->first = new Block{.at = at, .bytes = bytes, .segment = segment.get(), .uses = {}};
  Block* block = segment->first;
  segments_.emplace(segment.get(), std::move(segment));
  ++pool.segments;
  ++stats_.device_allocations;
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return block;
}

bool CachingAllocator::give_back() noexcept {
  ++stats_.retries;
  const bool all_came = !routes_.empty() || collect(true);
  free_late();
  return free_whole(own_) && all_came && !late_;
}

void CachingAllocator::out_of_memory(int64_t bytes) {
  fail("allocate: out of memory on ", upstream_.describe(), ": ", bytes_text(bytes),
       " asked for; arrays hold ", bytes_text(stats_.allocated), ", ",
       bytes_text(stats_.cached() + stats_.waiting),
       " are cached in pieces or kept for graphs; use smaller batches or release tensors");
}

void CachingAllocator::split(Block* block, int64_t bytes) {
  auto* rest = new Block{.at = block->at + bytes,
                         .bytes = block->bytes - bytes,
                         .segment = block->segment,
                         .before = block,
                         .after = block->after,
                         .uses = {}};
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
  block->segment->pool->blocks(block->segment->small).insert(rest);
}

void CachingAllocator::deallocate(void* at, StreamId user) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(at);
  check(found != in_use_.end(), "deallocate: this block is not in use");
  Block* block = found->second;
  in_use_.erase(found);
  if (user) add_use(*block, user);
  block->in_use = false;
  ++stats_.frees;
  stats_.allocated -= block->bytes;
  if (block->uses.empty()) {
    give(block);
    return;
  }
  stats_.waiting += block->bytes;
  if (routes_.empty()) {
    record_events(block);
  } else {
    block->deferred = true;
    deferred_.push_back(block);
  }
}

bool CachingAllocator::in_use(const void* block) const {
  const std::lock_guard lock(mutex_);
  return in_use_.count(block) == 1;
}

void CachingAllocator::record_use(void* at, StreamId stream) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(at);
  check(found != in_use_.end(), "record_use: this block is not in use");
  add_use(*found->second, stream);
}

void CachingAllocator::add_use(Block& block, StreamId stream) {
  if (stream == block.segment->stream) return;
  if (std::find(block.uses.begin(), block.uses.end(), stream) == block.uses.end()) {
    block.uses.push_back(stream);
  }
}

void CachingAllocator::record_events(Block* block) noexcept {
  block->deferred = false;
  for (const StreamId stream : block->uses) {
    const EventId event = upstream_.record(stream);
    if (!event) continue;
    pending_[stream].push_back({event, block});
    ++block->waits_for;
  }
  block->uses.clear();
  if (block->waits_for > 0) return;
  stats_.waiting -= block->bytes;
  give(block);
}

// Takes back the blocks whose events have passed. A stream's events pass in order.
bool CachingAllocator::collect(bool wait) noexcept {
  bool all_passed = true;
  for (auto& [stream, events] : pending_) {
    while (!events.empty()) {
      const auto [event, block] = events.front();
      if (wait) upstream_.wait(event);
      if (!upstream_.passed(event)) {
        all_passed = false;
        break;
      }
      upstream_.drop(event);
      events.pop_front();
      if (--block->waits_for > 0) continue;
      stats_.waiting -= block->bytes;
      give(block);
    }
  }
  return all_passed;
}

// A block that nobody uses any more joins its free neighbours and can be taken.
void CachingAllocator::give(Block* block) noexcept {
  Segment* segment = block->segment;
  Pool& pool = *segment->pool;
  FreeBlocks& blocks = pool.blocks(segment->small);
  if (block->after && block->after->free()) {
    blocks.erase(block->after);
    block = join(block, block->after);
  }
  if (block->before && block->before->free()) {
    blocks.erase(block->before);
    block = join(block->before, block);
  }
  const bool whole = block->bytes == segment->bytes;
  const bool goes_back = whole && (!pool.cached || pool.released);
  if (goes_back && free_segment(segment)) return;
  late_ = late_ || goes_back;
  blocks.insert(block);
}

void CachingAllocator::free_late() noexcept {
  if (!late_) return;
  bool all_went = own_.cached || free_whole(own_);
  std::vector<PoolId> released;
  for (const auto& [id, pool] : pools_) {
    if (pool->released) released.push_back(id);
  }
  for (const PoolId id : released) all_went = all_went && release(id);
  late_ = !all_went;
}

CachingAllocator::Block* CachingAllocator::join(Block* left, Block* right) noexcept {
  left->bytes += right->bytes;
  left->after = right->after;
  if (left->after) left->after->before = left;
  delete right;
  return left;
}

// Its blocks stand in no list of free ones any more.
bool CachingAllocator::free_segment(Segment* segment) noexcept {
  if (!upstream_.free(segment->at)) return false;
  ++stats_.device_frees;
  stats_.reserved -= segment->bytes;
  for (Block* block = segment->first; block != nullptr;) {
    Block* after = block->after;
    delete block;
    block = after;
  }
  Pool* pool = segment->pool;
  segments_.erase(segment);
  if (--pool->segments == 0 && pool->released) {
    std::erase_if(pools_, [&](const auto& entry) { return entry.second.get() == pool; });
  }
  return true;
}

bool CachingAllocator::free_whole(Pool& pool) noexcept {
  for (const bool small : {true, false}) {
    FreeBlocks& blocks = pool.blocks(small);
    for (auto at = blocks.begin(); at != blocks.end();) {
      Block* block = *at;
      if (block->bytes < block->segment->bytes) {
        ++at;
        continue;
      }
      at = blocks.erase(at);
      if (!free_segment(block->segment)) {
        blocks.insert(block);
        return false;
      }
    }
  }
  return true;
}

CachingAllocator::PoolId CachingAllocator::make_pool() {
  const std::lock_guard lock(mutex_);
  pools_[next_pool_] = std::make_unique<Pool>();
  return next_pool_++;
}

void CachingAllocator::route(StreamId stream, PoolId pool) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(pool);
  check(found != pools_.end() && !found->second->released, "route: there is no pool ", pool);
  check(routes_.emplace(stream, found->second.get()).second,
        "route: the stream's blocks come from a pool already");
}

void CachingAllocator::end_route(StreamId stream) {
  const std::lock_guard lock(mutex_);
  check(routes_.erase(stream) == 1, "end_route: no route of this stream is open");
  if (!routes_.empty()) return;
  for (Block* block : deferred_) record_events(block);
  deferred_.clear();
  collect(false);  // a loop of captured steps may make no other allocation
}

void CachingAllocator::release_pool(PoolId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second->released = true;
  late_ = true;
  free_late();
}

bool CachingAllocator::release(PoolId id) noexcept {
  Pool& pool = *pools_.at(id);
  ++pool.segments;  // one more, so that the last segment does not take the pool along
  const bool all_went = free_whole(pool);
  if (--pool.segments == 0) pools_.erase(id);
  return all_went;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  if (routes_.empty()) collect(false);
  free_late();
  free_whole(own_);
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void CachingAllocator::check_invariants() const {
  const std::lock_guard lock(mutex_);
  MemoryStats sums;
  size_t used = 0, listed = own_.small.size() + own_.large.size(), free = 0;
  for (const auto& [id, pool] : pools_) listed += pool->small.size() + pool->large.size();
  for (const auto& [segment, owner] : segments_) {
    const std::byte* expected = segment->at;
    const Block* before = nullptr;
    for (Block* block = segment->first; block; before = block, block = block->after) {
      check(block->at == expected && block->before == before && block->segment == segment &&
                block->bytes > 0,
            "allocator: a segment's blocks do not follow one another");
      expected += block->bytes;
      (block->in_use   ? sums.allocated
       : block->free() ? sums.reserved
                       : sums.waiting) += block->bytes;
      used += block->in_use;
      free += block->free();
      check(!block->in_use || in_use_.count(block->at) == 1, "allocator: a used block is unknown");
      check(!block->free() || segment->pool->blocks(segment->small).count(block) == 1,
            "allocator: a free block is not in its list");
      check(!block->free() || !before || !before->free(), "allocator: free neighbours not joined");
    }
    check(expected == segment->at + segment->bytes, "allocator: a segment is not covered");
  }
  check(used == in_use_.size() && free == listed, "allocator: blocks are listed twice or not");
  check(sums.allocated == stats_.allocated && sums.waiting == stats_.waiting &&
            sums.reserved == stats_.cached(),
        "allocator: the statistics do not match the blocks");
  check(
      stats_.allocations - stats_.frees == static_cast<int64_t>(used) &&
          stats_.device_allocations - stats_.device_frees == static_cast<int64_t>(segments_.size()),
      "allocator: the counts do not match the blocks");
}

}  // namespace hero::cuda
