#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/engines/copy_bytes.h>
#include <hero/dist/engines/mpi/part_transfer.h>
#include <hero/dist/engines/mpi/reduction.h>
#include <hero/dist/engines/mpi/transfer.h>
#include <hero/dist/engines/ordered_reduce.h>

namespace hero::dist {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

constexpr int64_t kCarriedBytes = 8192;  // of all parties together
constexpr int64_t kTagBytes = 8;         // what follows is aligned for every dtype

int64_t round_up(int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Bytes of a contribution that comes with the agreement; 0 where none does. Of nothing but what
// all parties state alike.
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
class Carried : public Transfer {
 public:
  explicit Carried(const Agreed& agreed) {
    const Call& call = agreed.call;
    const int parties = static_cast<int>(agreed.parties.size());
    if (!call.reduces()) {
      for (int i = 0; i < parties; ++i) {
        const Part part = call.counts.part(i);
        const auto bytes = at(part.count * item_size(call.dtype));
        if (bytes == 0) continue;
        std::memcpy(call.output + part.begin * item_size(call.dtype), agreed.contribution(i).data(),
                    bytes);
      }
      return;
    }
    Part what{0, call.size};
    if (call.op == Collective::reduce_scatter) what = call.counts.part(agreed.me);
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

// Operations that only move bytes: everything begins at once.
class Move : public PartTransfer {
 public:
  Move(Transport& transport, Agreed agreed) : PartTransfer(transport, std::move(agreed)) {
    const bool root = me() == call().root;
    const Part whole{0, call().size};
    // beginning behind the own rank, so that not all send to the same one at once
    for (int step = 0; step < parties(); ++step) {
      const int i = (me() + step) % parties();
      switch (call().op) {
        case Collective::all_gather:
        case Collective::split:
          exchange(i, {0, part(me()).count}, part(i));
          break;
        case Collective::gather:
          exchange(i, i == call().root ? Part{0, part(me()).count} : Part{},
                   root ? part(i) : Part{});
          break;
        case Collective::broadcast:
          if (i != me()) exchange(i, root ? whole : Part{}, i == call().root ? whole : Part{});
          break;
        case Collective::scatter:
          exchange(i, root ? part(i) : Part{},
                   i == call().root ? Part{0, part(me()).count} : Part{});
          break;
        case Collective::all_to_all:
          exchange(i, call().send_counts.part(i), call().recv_counts.part(i));
          break;
        default:
          break;
      }
    }
    if (call().op == Collective::send) send(1, 0, call().input, whole, pending_);
    if (call().op == Collective::recv) receive(0, 0, call().output, whole, pending_);
  }

  bool advance() override { return pending_ == 0; }

 private:
  // Party i gets `out` of the input, and what comes from it becomes `in` of the output.
  void exchange(int i, Part out, Part in) {
    if (i == me()) {
      const std::byte* const from = call().input + out.begin * item_;
      std::byte* const to = call().output + in.begin * item_;
      return copy_bytes(from, to, in.count * item_, call().size * item_);
    }
    receive(i, 0, call().output, in, pending_);
    send(i, 0, call().input, out, pending_);
  }

  int pending_ = 0;
};

// The library's own reduction.
class Native : public PartTransfer {
 public:
  Native(Transport& transport, uint64_t group, Agreed agreed)
      : PartTransfer(transport, std::move(agreed)) {
    if (call().size == 0) return;
    Call native = call();
    if (call().op == Collective::reduce_scatter) {  // may not write into the input
      for (int i = 0; i < parties(); ++i) counts_.push_back(static_cast<int>(part(i).count));
      own_.reset(new std::byte[at(part(me()).count * item_)]);
      native.output = own_.get();
    }
    transport_.reduce(group, native, counts_, pending_);
  }

  bool advance() override {
    if (pending_ > 0) return false;
    const bool scattered = call().op == Collective::reduce_scatter;
    const int64_t count = scattered ? part(me()).count : call().size;
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

std::unique_ptr<Transfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed) {
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
