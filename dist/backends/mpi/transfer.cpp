#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/backends/copy_bytes.h>
#include <hero/dist/backends/mpi/all_reduce.h>
#include <hero/dist/backends/mpi/chunk_transfer.h>
#include <hero/dist/backends/mpi/transfer.h>
#include <hero/dist/backends/mpi/window.h>
#include <hero/dist/backends/ordered_reduce.h>

namespace hero::dist {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

constexpr int64_t kCarriedBytes = 8192;  // of all parties together
constexpr int64_t kTagBytes = 8;         // what follows is aligned for every dtype

int64_t round_up(int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Bytes of an input that is sent with the agreement; 0: none is. It depends only on what all
// parties state alike.
int64_t contributed_bytes(const Call& call, int64_t parties) {
  const int64_t item = item_size(call.dtype);
  int64_t elements = 0;
  if (call.reduces()) {
    elements = call.size;
  } else if (call.op == Collective::all_gather || call.op == Collective::split) {
    elements = call.counts.is_balanced() ? (call.size + parties - 1) / parties : 0;
  }
  return elements <= kCarriedBytes / item / parties ? elements * item : 0;
}

// Contributions that have come with the agreement.
class Carried : public MpiTransfer {
 public:
  explicit Carried(const Agreed& agreed) {
    const Call& call = agreed.call;
    const int parties = static_cast<int>(agreed.parties.size());
    if (!call.reduces()) {
      for (int i = 0; i < parties; ++i) {
        const Chunk part = call.counts.chunk(i);
        const auto bytes = at(part.count * item_size(call.dtype));
        if (bytes == 0) continue;
        std::memcpy(call.output + part.begin * item_size(call.dtype), agreed.contribution(i).data(),
                    bytes);
      }
      return;
    }
    Chunk what{0, call.size};
    if (call.op == Collective::reduce_scatter) what = call.counts.chunk(agreed.me);
    if (what.count == 0 || (call.op == Collective::reduce && agreed.me != call.root)) return;
    std::vector<const std::byte*> inputs;
    for (int i = 0; i < parties; ++i) {
      inputs.push_back(reinterpret_cast<const std::byte*>(agreed.contribution(i).data()) +
                       what.begin * item_size(call.dtype));
    }
    ordered_reduce(call.fold(), inputs, call.output, what.count);
  }

  bool advance() override { return true; }
};

std::atomic<int> move_window{64};

// Operations that only move bytes. Message s of each way goes to the party s behind the own one,
// and comes from that s before it: on all ranks the same order, in which those that a rank has
// under way are the next ones. So whoever waits for room in a window waits for an earlier message,
// the first of all can go, and not all send to the same rank at once.
class Move : public ChunkTransfer {
 public:
  Move(Transport& transport, Agreed agreed)
      : ChunkTransfer(transport, std::move(agreed)),
        sends_(move_window.load()),
        receives_(move_window.load()) {
    if (is_message()) return;
    const Chunk from = outgoing(me()), to = incoming(me());
    if (from.count > 0 && to.count > 0) {
      copy_bytes(call().input + from.begin * item_, call().output + to.begin * item_,
                 to.count * item_, call().size * item_);
    }
  }

  bool advance() override {
    while (receive_more() || send_more()) {
    }
    return sends_.done() == messages() && receives_.done() == messages();
  }

 private:
  bool is_message() const { return call().op == Collective::send || call().op == Collective::recv; }
  bool is_root() const { return me() == call().root; }
  // Of each way; many are empty.
  int64_t messages() const { return parties() - 1; }

  bool send_more() {
    bool moved = sends_.retire();
    while (sends_.open() && sends_.next() < messages()) {
      const int i = (me() + 1 + static_cast<int>(sends_.next())) % parties();
      send(i, 0, call().input, outgoing(i), sends_.begin());
      moved = true;
    }
    return moved;
  }
  bool receive_more() {
    bool moved = receives_.retire();
    while (receives_.open() && receives_.next() < messages()) {
      const int i = (me() + parties() - 1 - static_cast<int>(receives_.next())) % parties();
      receive(i, 0, call().output, incoming(i), receives_.begin());
      moved = true;
    }
    return moved;
  }

  // What of the input party i gets.
  Chunk outgoing(int i) const {
    switch (call().op) {
      case Collective::all_gather:
      case Collective::split:
        return {0, chunk(me()).count};
      case Collective::gather:
        return i == call().root ? Chunk{0, chunk(me()).count} : Chunk{};
      case Collective::broadcast:
        return is_root() && i != me() ? Chunk{0, call().size} : Chunk{};
      case Collective::scatter:
        return is_root() ? chunk(i) : Chunk{};
      case Collective::all_to_all:
        return call().send_counts.chunk(i);
      case Collective::send:
        return i == 1 ? Chunk{0, call().size} : Chunk{};
      default:
        return {};
    }
  }
  // What of the output comes from party i.
  Chunk incoming(int i) const {
    switch (call().op) {
      case Collective::all_gather:
      case Collective::split:
        return chunk(i);
      case Collective::gather:
        return is_root() ? chunk(i) : Chunk{};
      case Collective::broadcast:
        return i == call().root && i != me() ? Chunk{0, call().size} : Chunk{};
      case Collective::scatter:
        return i == call().root ? Chunk{0, chunk(me()).count} : Chunk{};
      case Collective::all_to_all:
        return call().recv_counts.chunk(i);
      case Collective::recv:
        return i == 0 ? Chunk{0, call().size} : Chunk{};
      default:
        return {};
    }
  }

  Window sends_, receives_;
};

// The library's own reduction.
class Native : public ChunkTransfer {
 public:
  Native(Transport& transport, uint64_t group, Agreed agreed)
      : ChunkTransfer(transport, std::move(agreed)) {
    if (call().size == 0) return;
    Call native = call();
    if (call().op == Collective::reduce_scatter) {  // may not write into the input
      for (int i = 0; i < parties(); ++i) counts_.push_back(static_cast<int>(chunk(i).count));
      own_.reset(new std::byte[at(chunk(me()).count * item_)]);
      native.output = own_.get();
    }
    transport_.reduce(group, native, counts_, pending_);
  }

  bool advance() override {
    if (pending_ > 0) return false;
    const bool scattered = call().op == Collective::reduce_scatter;
    const int64_t count = scattered ? chunk(me()).count : call().size;
    if (call().output == nullptr || count == 0) return true;
    if (own_) std::memcpy(call().output, own_.get(), at(count * item_));
    if (call().reduce == ReduceOp::mean) divide(count);
    return true;
  }

 private:
  void divide(int64_t count) const {
    dispatch(call().dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>) {
        const auto divisor = static_cast<T>(core::divisor_of(call().fold(), at(parties())));
        T* const values = reinterpret_cast<T*>(call().output);
        for (int64_t i = 0; i < count; ++i) values[i] = values[i] / divisor;
      }
    });
  }

  std::vector<int> counts_;
  std::unique_ptr<std::byte[]> own_;
  int pending_ = 0;
};

}  // namespace

void set_move_window(int messages) { move_window.store(messages); }

int Agreed::tag(int party) const {
  int tag = 0;
  std::memcpy(&tag, agreement.carried(party).data(), sizeof tag);
  return tag;
}

std::string_view Agreed::contribution(int party) const {
  return agreement.carried(party).substr(kTagBytes);
}

std::string carried_by(const Call& call, int me, int parties, int tag) {
  const bool none = call.op == Collective::barrier || !call.moves;
  if (none || (call.reduces() && call.order == Order::native)) return {};
  std::string carried(at(kTagBytes + round_up(contributed_bytes(call, parties))), '\0');
  std::memcpy(carried.data(), &tag, sizeof tag);
  if (carried.size() == at(kTagBytes)) return carried;
  const int64_t elements = call.reduces() ? call.size : call.counts.count(me);
  if (elements > 0) {
    std::memcpy(carried.data() + kTagBytes, call.input, at(elements * item_size(call.dtype)));
  }
  return carried;
}

std::unique_ptr<MpiTransfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed) {
  const Call& call = agreed.call;
  if (call.reduces() && call.order == Order::native) {
    return std::make_unique<Native>(transport, group, std::move(agreed));
  }
  if (contributed_bytes(call, static_cast<int64_t>(agreed.parties.size())) > 0) {
    return std::make_unique<Carried>(agreed);
  }
  if (call.reduces()) return make_reduction(transport, std::move(agreed));
  return std::make_unique<Move>(transport, std::move(agreed));
}

}  // namespace hero::dist
