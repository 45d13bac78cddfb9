#pragma once
// ChunkTransfer: the common base of transfers that send and receive slices of arrays.
#include <utility>

#include <hero/core/dtype.h>
#include <hero/dist/backends/mpi/transfer.h>

namespace hero::dist {

/// Sends and receives slices of arrays of the call's dtype; party i's `stage`s, 0 and 1, have tags
/// of their own.
class ChunkTransfer : public MpiTransfer {
 public:
  ChunkTransfer(Transport& transport, Agreed agreed)
      : transport_(transport), agreed_(std::move(agreed)), item_(item_size(call().dtype)) {}

 protected:
  const Call& call() const { return agreed_.call; }
  int me() const { return agreed_.me; }
  int parties() const { return static_cast<int>(agreed_.parties.size()); }
  Chunk chunk(int i) const { return call().counts.chunk(i); }

  void send(int party, int stage, const std::byte* base, Chunk what, int& pending) {
    send(party, stage, base, what, item_, pending);
  }
  void receive(int party, int stage, std::byte* base, Chunk what, int& pending) {
    receive(party, stage, base, what, item_, pending);
  }
  // Of elements of another dtype.
  void send(int party, int stage, const std::byte* base, Chunk what, int64_t item, int& pending) {
    if (what.count == 0) return;
    transport_.send(rank_of(party), agreed_.tag(party) + stage, base + what.begin * item,
                    what.count * item, pending);
  }
  void receive(int party, int stage, std::byte* base, Chunk what, int64_t item, int& pending) {
    if (what.count == 0) return;
    transport_.receive(rank_of(party), agreed_.tag(me()) + stage, base + what.begin * item,
                       what.count * item, pending);
  }

  Transport& transport_;
  Agreed agreed_;
  const int64_t item_;  // bytes

 private:
  int rank_of(int party) const { return agreed_.parties[static_cast<size_t>(party)]; }
};

}  // namespace hero::dist
