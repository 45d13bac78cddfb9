#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <hero/dist/backends/mpi/all_reduce.h>
#include <hero/dist/backends/mpi/chunk_transfer.h>
#include <hero/dist/backends/mpi/window.h>
#include <hero/dist/backends/ordered_reduce.h>

namespace hero::dist {
namespace {

constexpr int64_t kSmallBytes = int64_t{1} << 15;  // fewer slots where segments would be less
constexpr int kSlots = 4;

std::atomic<int64_t> staging_budget{int64_t{16} << 20};

size_t index_of(int64_t i) { return static_cast<size_t>(i); }

// [note: a reduction in segments] Every party reduces one part and sends the other parties theirs,
// segment by segment: while a segment of all ranks is added up, later ones are under way. In an
// all_reduce each reduced segment is sent to all parties at once; a reduced segment is received
// into the place from which the unreduced one was sent, so only after that send is complete.
// Message k (N - 1) + s - 1 of each kind is that of segment k to the party s places after this one,
// or from the party s places before it. This order is the same on all ranks, so a message that
// waits for room in a window waits for an earlier message, and the earliest of all can always
// proceed (no deadlock).
class Reduction : public ChunkTransfer {
 public:
  Reduction(Transport& transport, Agreed agreed)
      : ChunkTransfer(transport, std::move(agreed)),
        pieces_(pieces_of(parties(), item_, staging_budget.load())),
        segment_(pieces_.segment / item_),
        others_(parties() - 1),
        gathers_(call().op == Collective::all_reduce),
        sends_(pieces_.window),
        receives_(pieces_.window),
        returns_(pieces_.window),
        results_(pieces_.window) {
    outgoing_.resize(index_of(parties()));
    for (int i = 0; i < parties(); ++i) {
      (i == me() ? own_ : outgoing_[index_of(i)]) = call().summed_by(i);
    }
    in_segments_ = segments(own_);
    for (const Chunk& out : outgoing_) out_segments_ = std::max(out_segments_, segments(out));
    slot_bytes_ = std::min(segment_, own_.count) * item_;
    const int64_t slots = std::min<int64_t>(pieces_.slots, in_segments_);
    staging_.reset(new std::byte[index_of(slots * others_ * slot_bytes_)]);
  }

  bool advance() override {
    while (send_more() || receive_more() || (gathers_ && gather_more())) {
    }
    const bool gathered = !gathers_ || (returns_.done() == in_segments_ * others_ &&
                                        results_.done() == out_segments_ * others_);
    return reduced_ == in_segments_ && sends_.done() == out_segments_ * others_ && gathered;
  }

 private:
  int64_t segments(Chunk what) const { return (what.count + segment_ - 1) / segment_; }
  // Segment k of a part; empty behind its end.
  Chunk segment(Chunk what, int64_t k) const {
    const int64_t begin = std::min(k * segment_, what.count);
    return {what.begin + begin, std::min(segment_, what.count - begin)};
  }
  int64_t segment_of(const Window& window) const { return window.next() / others_; }
  int party_behind(const Window& window) const {
    return (me() + 1 + static_cast<int>(window.next() % others_)) % parties();
  }
  int party_before(const Window& window) const {
    return (me() + others_ - static_cast<int>(window.next() % others_)) % parties();
  }

  bool send_more() {
    bool moved = sends_.retire();
    while (sends_.open() && sends_.next() < out_segments_ * others_) {
      const int i = party_behind(sends_);
      const Chunk what = segment(outgoing_[index_of(i)], segment_of(sends_));
      send(i, 0, call().input, what, sends_.begin());
      moved = true;
    }
    return moved;
  }

  std::byte* staged(int64_t k, int party) const {
    const int64_t place = party < me() ? party : party - 1;
    return staging_.get() + ((k % pieces_.slots) * others_ + place) * slot_bytes_;
  }

  bool receive_more() {
    bool moved = receives_.retire();
    while (reduced_ < in_segments_ && receives_.done() >= (reduced_ + 1) * others_) {
      reduce_segment(reduced_++);
      moved = true;
    }
    const int64_t room = std::min(reduced_ + pieces_.slots, in_segments_);
    while (receives_.open() && receives_.next() < room * others_) {
      const int i = party_before(receives_);
      const int64_t k = segment_of(receives_);
      const Chunk what{0, segment(own_, k).count};
      receive(i, 0, staged(k, i), what, receives_.begin());
      moved = true;
    }
    return moved;
  }

  void reduce_segment(int64_t k) {
    const Chunk what = segment(own_, k);
    // a reduce_scatter's output is the part alone
    const int64_t begin =
        call().op == Collective::reduce_scatter ? what.begin - own_.begin : what.begin;
    std::byte* const output = call().output + begin * item_size(call().result);
    std::vector<const std::byte*> inputs;
    for (int i = 0; i < parties(); ++i) {
      inputs.push_back(i == me() ? call().input + what.begin * item_ : staged(k, i));
    }
    ordered_reduce(call().fold(), inputs, output, what.count);
  }

  bool gather_more() {
    const bool returned = returns_.retire(), come = results_.retire();
    bool moved = returned || come;
    while (returns_.open() && returns_.next() < reduced_ * others_) {
      const int i = party_behind(returns_);
      const Chunk what = segment(own_, segment_of(returns_));
      send(i, 1, call().output, what, returns_.begin());
      moved = true;
    }
    const int64_t left = sends_.done() / std::max(1, others_) * others_;
    while (results_.open() && results_.next() < left) {
      const int i = party_before(results_);
      const Chunk what = segment(outgoing_[index_of(i)], segment_of(results_));
      receive(i, 1, call().output, what, results_.begin());
      moved = true;
    }
    return moved;
  }

  const Pieces pieces_;
  const int64_t segment_;  // elements
  const int others_;
  const bool gathers_;
  Chunk own_;
  std::vector<Chunk> outgoing_;  // by party
  int64_t in_segments_ = 0, out_segments_ = 0;
  int64_t reduced_ = 0;                          // segments
  Window sends_, receives_, returns_, results_;  // unreduced; reduced
  int64_t slot_bytes_ = 0;
  std::unique_ptr<std::byte[]> staging_;
};

}  // namespace

Pieces pieces_of(int parties, int64_t item, int64_t budget) {
  const int64_t others = std::max(1, parties - 1);
  Pieces pieces;
  pieces.slots = budget / kSlots / others >= kSmallBytes ? kSlots : kSlots / 2;
  const int64_t bytes = std::min(kSegmentBytes, budget / pieces.slots / others);
  pieces.segment = std::max<int64_t>(1, bytes / item) * item;
  if (pieces.segment * pieces.slots * others > budget) pieces.slots = 1;
  pieces.window = kWindow;
  return pieces;
}

void set_staging_budget(int64_t bytes) { staging_budget.store(bytes); }

std::unique_ptr<MpiTransfer> make_reduction(Transport& transport, Agreed agreed) {
  if (agreed.call.two_levels()) {
    return make_two_levels(transport, std::move(agreed), staging_budget.load());
  }
  return std::make_unique<Reduction>(transport, std::move(agreed));
}

}  // namespace hero::dist
