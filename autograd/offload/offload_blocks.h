#pragma once
// OffloadBlocks: the storages that the calls of offload() on one thread have saved for backward;
// for offload.cpp, node.cpp and checkpoint.cpp.
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <hero/autograd/offload/offload.h>
#include <hero/core/array.h>

namespace hero::detail {

/// The number of calls of offload(), one inside the other, that now run on the thread.
inline constinit thread_local int offload_calls = 0;

/// [note: what leaves] A storage that an operation saves is noted, with the number of saved arrays
/// that refer to it. If there are no other references, only backward can use it, and it is moved
/// out: its bytes go to a HostCopy and it is released, but it stays the same storage. A
/// core::Fetcher restores its bytes when anybody asks for them, so operations, the engine and
/// checkpoints need no code for it. At the end of a call, the program still refers to the result
/// and the input of the block; both are checked again when the next two calls begin.
class OffloadBlocks : public std::enable_shared_from_this<OffloadBlocks> {
 public:
  /// The OffloadBlocks of the calling thread.
  static OffloadBlocks& current();
  OffloadBlocks();
  ~OffloadBlocks();
  OffloadBlocks(const OffloadBlocks&) = delete;
  OffloadBlocks& operator=(const OffloadBlocks&) = delete;

  /// Sets the options of the innermost call, null outside of all calls; returns the options before.
  const OffloadOptions* enter(const OffloadOptions* options);
  /// Called when an outermost call begins: moves out storages to which only the graph refers by
  /// now.
  void begin_call(const OffloadOptions& options);
  /// Called when a call ends: waits for the copies that were begun before, and moves out the
  /// storages that its operations have saved.
  void end_call(const OffloadOptions& options);
  /// Called when an operation saves the array, which is no leaf's.
  void note(const Array& array);
  OffloadTraffic traffic() const;

 private:
  struct Saved;
  struct Block {
    std::vector<Saved*> saved = {};  // in the order in which they left
    bool is_coming = false;          // in the backward that runs now
  };
  using Kept = std::vector<core::Ref<core::Storage>>;

  void move_free(const OffloadOptions& options, Block& block, Kept& kept);
  void move(Saved& saved, const OffloadOptions& options, Block& block, Kept& kept);
  void wait_out(Saved& saved, Kept& kept);
  void begin_back(Saved& saved, Kept& kept);
  void begin_back(const Block& block, Kept& kept);
  void fetch(Saved& saved);
  void put_back();
  void forget(Saved& saved);
  void erase(Saved& saved);

  mutable std::mutex mutex_;
  const OffloadOptions* options_ = nullptr;
  std::unordered_map<const core::Storage*, std::unique_ptr<Saved>> all_;
  std::vector<Saved*> noted_, leaving_;
  std::vector<std::unique_ptr<Block>> blocks_;  // in the order of forward; none but the last empty
  OffloadTraffic traffic_;
};

}  // namespace hero::detail
