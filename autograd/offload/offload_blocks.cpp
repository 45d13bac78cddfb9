#include <algorithm>
#include <string>

#include <hero/autograd/graph/engine.h>
#include <hero/autograd/offload/host_copy.h>
#include <hero/autograd/offload/offload_blocks.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/threads/per_thread.h>

namespace hero::detail {

struct OffloadBlocks::Saved final : core::Fetcher {
  enum class At : uint8_t { storage, leaving, away, coming };

  Saved(std::shared_ptr<OffloadBlocks> of, core::Storage& what)
      : owner(std::move(of)), storage(what) {
    core::set_fetcher(storage, this);
  }
  ~Saved() override { core::set_fetcher(storage, nullptr); }

  uint32_t known_references() const { return noted + noted_before; }
  void fetch() override { owner->fetch(*this); }
  void fetch_next() override { owner->fetch(*this); }
  void put_back() override {}
  void ended() override {
    const std::shared_ptr<OffloadBlocks> of = owner;  // which goes with its last storage
    of->forget(*this);
  }

  std::shared_ptr<OffloadBlocks> owner;
  core::Storage& storage;
  uint32_t noted = 0, noted_before = 0;  // saved arrays of the last call, and of the one before
  uint32_t version = 0;                  // of the storage when it left
  At at = At::storage;
  Block* block = nullptr;
  std::unique_ptr<HostCopy> copy;  // null until the storage leaves
  std::string error;               // why its bytes are lost
};

OffloadBlocks::OffloadBlocks() = default;
OffloadBlocks::~OffloadBlocks() = default;

OffloadBlocks& OffloadBlocks::current() {
  auto& mine = core::PerThread<std::shared_ptr<OffloadBlocks>, OffloadBlocks>::get();
  if (!mine) mine = std::make_shared<OffloadBlocks>();
  return *mine;
}

const OffloadOptions* OffloadBlocks::enter(const OffloadOptions* options) {
  return std::exchange(options_, options);
}

OffloadTraffic OffloadBlocks::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void OffloadBlocks::note(const Array& array) {
  core::Storage& storage = array.storage();
  const bool leaves = core::host_of(storage.device()) != storage.device() || options_->disk;
  if (!leaves || storage.released() || storage.bytes() == 0) return;
  if (storage.tag() != MemoryTag::activation) return;
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(&storage);
  if (found == all_.end()) {
    if (core::fetcher_of(storage) != nullptr) return;  // another thread has noted it
    auto saved = std::make_unique<Saved>(shared_from_this(), storage);
    saved->noted = 1;
    noted_.push_back(saved.get());
    all_.emplace(&storage, std::move(saved));
  } else if (!found->second->copy) {
    ++found->second->noted;
  }
}

void OffloadBlocks::begin_call(const OffloadOptions& options) {
  Kept kept;
  const std::lock_guard lock(mutex_);
  if (noted_.empty()) return;
  if (blocks_.empty()) blocks_.push_back(std::make_unique<Block>());
  move_free(options, *blocks_.back(), kept);
  std::vector<Saved*> given_up;
  for (Saved* const saved : noted_) {
    saved->noted_before = std::exchange(saved->noted, 0);
    if (saved->noted_before == 0) given_up.push_back(saved);
  }
  for (Saved* const saved : given_up) erase(*saved);
}

void OffloadBlocks::end_call(const OffloadOptions& options) {
  Kept kept;
  const std::lock_guard lock(mutex_);
  while (!leaving_.empty()) wait_out(*leaving_.back(), kept);
  if (blocks_.empty() || !blocks_.back()->saved.empty()) {
    blocks_.push_back(std::make_unique<Block>());
  }
  move_free(options, *blocks_.back(), kept);
}

// `kept` ends behind the lock: another thread may let go of its reference meanwhile.
void OffloadBlocks::move_free(const OffloadOptions& options, Block& block, Kept& kept) {
  for (size_t i = 0; i < noted_.size();) {
    Saved& saved = *noted_[i];
    if (core::reference_count(saved.storage) > saved.known_references()) {
      ++i;
    } else {
      move(saved, options, block, kept);
      noted_.erase(noted_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void OffloadBlocks::move(Saved& saved, const OffloadOptions& options, Block& block, Kept& kept) {
  kept.push_back(core::Ref<core::Storage>::share(&saved.storage));
  saved.version = saved.storage.version();
  try {
    saved.copy = HostCopy::make(kept.back(), options.disk, traffic_);
  } catch (const Error& error) {
    fail("offload: ", bytes_text(saved.storage.bytes()),
         " that backward needs stay in memory: ", error.what());
  }
  saved.at = Saved::At::leaving;
  saved.block = &block;
  block.saved.push_back(&saved);
  leaving_.push_back(&saved);
}

void OffloadBlocks::wait_out(Saved& saved, Kept& kept) {
  if (saved.at != Saved::At::leaving) return;
  std::erase(leaving_, &saved);
  saved.at = Saved::At::away;
  const std::string error = saved.copy->wait_out();
  if (error.empty()) return;
  kept.push_back(core::Ref<core::Storage>::share(&saved.storage));
  saved.copy->end_back(kept.back());
  erase(saved);
  fail("offload: ", bytes_text(kept.back()->bytes()),
       " that backward needs stay in memory: ", error);
}

void OffloadBlocks::begin_back(Saved& saved, Kept& kept) {
  wait_out(saved, kept);
  if (saved.at != Saved::At::away || !saved.error.empty()) return;
  saved.copy->begin_back();
  saved.at = Saved::At::coming;
}

// Backward asks first for what was saved last.
void OffloadBlocks::begin_back(const Block& block, Kept& kept) {
  const std::vector<Saved*> saved = block.saved;
  for (auto each = saved.rbegin(); each != saved.rend(); ++each) begin_back(**each, kept);
}

void OffloadBlocks::fetch(Saved& saved) {
  Kept kept;
  const std::lock_guard lock(mutex_);
  if (!saved.copy || !saved.storage.released()) return;
  if (backward_running() && !saved.block->is_coming) {
    on_backward_end([self = shared_from_this()] { self->put_back(); });
    saved.block->is_coming = true;
    begin_back(*saved.block, kept);
    const auto own = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const auto& each) { return each.get() == saved.block; });
    if (own != blocks_.begin()) begin_back(**std::prev(own), kept);
  }
  kept.push_back(core::Ref<core::Storage>::share(&saved.storage));
  begin_back(saved, kept);
  try {
    check(saved.error.empty(), saved.error);
    saved.copy->end_back(kept.back());
  } catch (const Error& error) {
    saved.error = error.what();
    saved.at = Saved::At::away;
    fail("offload: ", bytes_text(saved.storage.bytes()),
         " that backward needs are lost: ", error.what(), "; run forward again");
  }
  saved.at = Saved::At::storage;
}

// A graph that was retained may be walked again, and of it nothing stays in memory. What somebody
// has written to meanwhile does: backward will refuse it.
void OffloadBlocks::put_back() {
  const std::lock_guard lock(mutex_);
  for (const auto& block : blocks_) {
    block->is_coming = false;
    for (Saved* const saved : block->saved) {
      if (saved->at == Saved::At::storage && saved->storage.version() != saved->version) continue;
      try {
        if (saved->at == Saved::At::coming) saved->copy->drop();
      } catch (const Error& error) {
        saved->error = error.what();
      }
      if (saved->at == Saved::At::storage) saved->storage.release();
      if (saved->at != Saved::At::leaving) saved->at = Saved::At::away;
    }
  }
}

void OffloadBlocks::forget(Saved& saved) {
  const std::lock_guard lock(mutex_);
  erase(saved);
}

void OffloadBlocks::erase(Saved& saved) {
  std::erase(noted_, &saved);
  std::erase(leaving_, &saved);
  if (Block* const block = saved.block) {
    std::erase(block->saved, &saved);
    std::erase_if(blocks_, [&](const auto& each) {
      return each.get() == block && block->saved.empty() && each != blocks_.back();
    });
  }
  all_.erase(&saved.storage);
}

}  // namespace hero::detail
