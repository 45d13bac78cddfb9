#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/engines/copy_bytes.h>
#include <hero/dist/engines/mpi/transfer.h>
#include <hero/dist/engines/ordered_reduce.h>

namespace hero::dist {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// What all transfers know.
class Base : public Transfer {
 public:
  Base(Transport& transport, Agreed agreed)
      : transport_(transport), agreed_(std::move(agreed)), item_(item_size(call().dtype)) {}

 protected:
  const Call& call() const { return agreed_.call; }
  int me() const { return agreed_.me; }
  int parties() const { return static_cast<int>(agreed_.parties.size()); }
  Part part(int i) const { return call().counts.part(i); }

  void send(int party, int stage, const std::byte* base, Part what, int& pending) {
    if (what.count == 0) return;
    transport_.send(agreed_.parties[at(party)], agreed_.tags[at(party)] + stage,
                    base + what.begin * item_, what.count * item_, pending);
  }
  void receive(int party, int stage, std::byte* base, Part what, int& pending) {
    if (what.count == 0) return;
    transport_.receive(agreed_.parties[at(party)], agreed_.tags[at(me())] + stage,
                       base + what.begin * item_, what.count * item_, pending);
  }

  Transport& transport_;
  Agreed agreed_;
  const int64_t item_;
};

// Operations that only move bytes: everything begins at once.
class Move : public Base {
 public:
  Move(Transport& transport, Agreed agreed) : Base(transport, std::move(agreed)) {
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

// [note: a reduction in segments]
// Every party reduces one part and sends the others theirs, segment by segment: while a segment of
// all ranks is added up, later ones are under way. In an all_reduce each reduced segment goes to
// all at once; a segment of theirs is received into the place from which its unreduced one was
// sent, so not before that has left.
class Reduction : public Base {
 public:
  Reduction(Transport& transport, Agreed agreed) : Base(transport, std::move(agreed)) {
    const int64_t others = std::max(1, parties() - 1);
    const int64_t bytes = std::clamp((int64_t{4} << 20) / others, int64_t{1} << 16, kSegmentBytes);
    segment_ = bytes / item_;
    const bool to_root = call().op == Collective::reduce;
    gathers_ = call().op == Collective::all_reduce;
    outgoing_.resize(at(parties()));
    for (int i = 0; i < parties(); ++i) {
      const bool reduces = !to_root || i == call().root;
      const Part whole = to_root ? Part{0, call().size} : part(i);
      (i == me() ? own_ : outgoing_[at(i)]) = reduces ? whole : Part{};
    }
    in_segments_ = segments(own_);
    for (const Part& out : outgoing_) out_segments_ = std::max(out_segments_, segments(out));
    const int64_t slots = std::min<int64_t>(kWindow, in_segments_);
    slot_bytes_ = std::min(segment_, own_.count) * item_;
    staging_.reset(new std::byte[at(slots * (parties() - 1) * slot_bytes_)]);
  }

  bool advance() override {
    for (;;) {
      const bool sent = send_more(), received = receive_more();
      if (!sent && !received) break;
    }
    return reduced_ == in_segments_ && sent_ == out_segments_ && gathering_ == 0;
  }

 private:
  static constexpr int kWindow = 4;  // segments under way
  static constexpr int64_t kSegmentBytes = int64_t{1} << 18;

  int64_t segments(Part what) const { return (what.count + segment_ - 1) / segment_; }
  // Segment k of a part; empty behind its end.
  Part segment(Part what, int64_t k) const {
    const int64_t begin = std::min(k * segment_, what.count);
    return {what.begin + begin, std::min(segment_, what.count - begin)};
  }

  bool send_more() {
    bool moved = false;
    while (sent_ < next_out_ && sending_[at(sent_ % kWindow)] == 0) {
      for (int i = 0; gathers_ && i < parties(); ++i) {
        if (i != me()) receive(i, 1, call().output, segment(outgoing_[at(i)], sent_), gathering_);
      }
      ++sent_;
      moved = true;
    }
    for (; next_out_ < std::min(out_segments_, sent_ + kWindow); ++next_out_) {
      for (int step = 1; step < parties(); ++step) {
        const int i = (me() + step) % parties();
        send(i, 0, call().input, segment(outgoing_[at(i)], next_out_),
             sending_[at(next_out_ % kWindow)]);
      }
      moved = true;
    }
    return moved;
  }

  std::byte* staged(int64_t k, int party) const {
    const int64_t place = party < me() ? party : party - 1;
    return staging_.get() + ((k % kWindow) * (parties() - 1) + place) * slot_bytes_;
  }

  bool receive_more() {
    bool moved = false;
    while (reduced_ < next_in_ && receiving_[at(reduced_ % kWindow)] == 0) {
      reduce_segment(reduced_++);
      moved = true;
    }
    for (; next_in_ < std::min(in_segments_, reduced_ + kWindow); ++next_in_) {
      const Part what{0, segment(own_, next_in_).count};
      for (int step = 1; step < parties(); ++step) {
        const int i = (me() + parties() - step) % parties();
        receive(i, 0, staged(next_in_, i), what, receiving_[at(next_in_ % kWindow)]);
      }
      moved = true;
    }
    return moved;
  }

  void reduce_segment(int64_t k) {
    const Part what = segment(own_, k);
    // a reduce_scatter's output is the part alone
    const int64_t begin =
        call().op == Collective::reduce_scatter ? what.begin - own_.begin : what.begin;
    std::byte* const output = call().output + begin * item_size(call().result);
    std::vector<const std::byte*> inputs;
    for (int i = 0; i < parties(); ++i) {
      inputs.push_back(i == me() ? call().input + what.begin * item_ : staged(k, i));
    }
    ordered_reduce(call().fold(), inputs, output, what.count);
    for (int i = 0; gathers_ && i < parties(); ++i) {
      if (i != me()) send(i, 1, call().output, what, gathering_);
    }
  }

  bool gathers_ = false;
  Part own_;
  std::vector<Part> outgoing_;  // by party
  int64_t segment_ = 1;         // elements
  int64_t in_segments_ = 0, out_segments_ = 0;
  int64_t next_in_ = 0, reduced_ = 0;  // segments asked for; added up
  int64_t next_out_ = 0, sent_ = 0;    // segments begun; gone
  int64_t slot_bytes_ = 0;
  std::unique_ptr<std::byte[]> staging_;
  int receiving_[kWindow] = {}, sending_[kWindow] = {}, gathering_ = 0;
};

// The library's own reduction.
class Native : public Base {
 public:
  Native(Transport& transport, uint64_t group, Agreed agreed) : Base(transport, std::move(agreed)) {
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

std::unique_ptr<Transfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed) {
  if (agreed.call.reduces() && agreed.call.order == Order::native) {
    return std::make_unique<Native>(transport, group, std::move(agreed));
  }
  if (agreed.call.reduces()) return std::make_unique<Reduction>(transport, std::move(agreed));
  return std::make_unique<Move>(transport, std::move(agreed));
}

}  // namespace hero::dist
