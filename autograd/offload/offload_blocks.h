#pragma once
// What the calls of offload() on one thread have saved; for offload.cpp, node.cpp and
// checkpoint.cpp.
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <hero/autograd/offload/offload.h>
#include <hero/core/array.h>

namespace hero::detail {

/// How many calls of offload() the thread is in, one inside the other.
inline constinit thread_local int offload_calls = 0;

/// [note: what leaves] A storage that an operation saves is noted with the number of arrays that
/// refer to it so. Where there are no other references nobody but backward can ask for it, and it
/// is moved: its bytes go to a HostCopy and it is released, but stays the same storage. Whoever
/// asks for its bytes makes it come back, as core::Fetcher; so operations, the engine and
/// checkpoints know nothing of it. At the end of a call its result is still held, and its input by
/// the caller; both are looked at again when the next two calls begin.
class OffloadBlocks : public std::enable_shared_from_this<OffloadBlocks> {
 public:
  /// Those of the calling thread.
  static OffloadBlocks& current();
  OffloadBlocks();
  ~OffloadBlocks();
  OffloadBlocks(const OffloadBlocks&) = delete;
  OffloadBlocks& operator=(const OffloadBlocks&) = delete;

  /// The options of the innermost call, null outside of all; returns those before.
  const OffloadOptions* enter(const OffloadOptions* options);
  /// An outermost call begins: moves what has become free since.
  void begin_call(const OffloadOptions& options);
  /// A call ends: waits for what went before, and moves what its operations have saved.
  void end_call(const OffloadOptions& options);
  /// An operation saves the array, which is no leaf's.
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
