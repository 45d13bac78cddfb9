#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/backends/mpi/all_reduce.h>
#include <hero/dist/backends/mpi/chunk_transfer.h>
#include <hero/dist/backends/mpi/window.h>
#include <hero/dist/backends/ordered_reduce.h>

namespace hero::dist {
namespace {

constexpr int kHostSlots = 4;  // sums of a host that are not added up, or not sent yet
constexpr int kFoldSlots = 2;  // segments for which the sums of all hosts come

size_t place(int64_t i) { return static_cast<size_t>(i); }

// [note: a reduction in two levels] There are H hosts of h ranks; this rank has the index j on host
// m. It adds up, for the rank with index j on every host, what the ranks of host m contribute (a
// sum), sends H - 1 of these sums, and adds up those that come for its own part. All that goes
// segment by segment, as in a reduction in one level. In an all_reduce the segments come back the
// other way: to the ranks with index j, and from each of these to the others of its host.
// Of segment k, the sum number t = 0 .. H - 1 is that for host m + 1 + t modulo H: that for the own
// host comes last. All ranks go through (k, t) in this order, the t-th sum of each goes to the host
// that takes it as its t-th, and a rank that waits for room, in a window or in its memory, waits
// for earlier numbers. So the earliest of all can always proceed (no deadlock). What comes back
// waits for no other room, and nothing waits for it.
class TwoLevels : public ChunkTransfer {
 public:
  TwoLevels(Transport& transport, Agreed agreed, int64_t budget)
      : ChunkTransfer(transport, std::move(agreed)),
        h_(call().ranks_of_host),
        hosts_(parties() / h_),
        host_(me() / h_),
        index_(me() % h_),
        sum_item_(item_size(call().partial_dtype())),
        segment_(segment_of_levels(h_, hosts_, item_, sum_item_, budget)),
        own_(call().summed_by(me())),
        contributions_(kWindow),
        contributed_(kWindow),
        sums_sent_(kWindow),
        sums_come_(kWindow),
        returns_(kWindow),
        returned_(kWindow),
        passed_(kWindow),
        arrived_(kWindow) {
    int64_t longest = 0;
    for (int i = 0; i < parties(); ++i) longest = std::max(longest, call().summed_by(i).count);
    segments_ = (longest + segment_ - 1) / segment_;
    const int64_t slot = std::min(segment_, longest);
    slot_bytes_ = slot * item_;
    sum_bytes_ = slot * sum_item_;
    staging_.reset(new std::byte[place(kHostSlots * (h_ - 1) * slot_bytes_ +
                                       (kHostSlots + kFoldSlots * hosts_) * sum_bytes_)]);
  }

  bool advance() override {
    bool moved = true;
    while (moved) {
      moved = contribute();
      moved = sum_host() || moved;
      moved = exchange_sums() || moved;
      moved = (call().op == Collective::all_reduce && gather()) || moved;
    }
    const int64_t within = segments_ * hosts_ * (h_ - 1), across = segments_ * (hosts_ - 1);
    const bool gathered = call().op != Collective::all_reduce ||
                          (returns_.done() == across && returned_.done() == across &&
                           passed_.done() == within && arrived_.done() == within);
    return contributions_.done() == within && sums_sent_.done() == across && folded_ == segments_ &&
           gathered;
  }

 private:
  // Segment k of the part of the rank `index` of a host; empty behind its end.
  Chunk segment(int64_t k, int host, int index) const {
    const Chunk what = call().summed_by(rank_at(host, index));
    const int64_t begin = std::min(k * segment_, what.count);
    return {what.begin + begin, std::min(segment_, what.count - begin)};
  }
  int host_behind(int64_t steps) const { return static_cast<int>((host_ + steps) % hosts_); }
  int host_before(int64_t steps) const {
    return static_cast<int>((host_ + hosts_ - steps) % hosts_);
  }
  int rank_at(int host, int index) const { return host * h_ + index; }

  // Message `number` within the host: that of a sum to the rank `to` places behind this one, and
  // from the rank so many before it.
  struct Within {
    int64_t sum;
    int to, from;
  };
  Within within(int64_t number) const {
    const auto places = static_cast<int>(1 + number % (h_ - 1));
    return {number / (h_ - 1), (index_ + places) % h_, (index_ + h_ - places) % h_};
  }
  // Of sum k * H + t: its segment, and for which host it is.
  int64_t segment_of(int64_t sum) const { return sum / hosts_; }
  int host_of(int64_t sum) const { return host_behind(1 + sum % hosts_); }
  // Message k * (H - 1) + t between hosts.
  struct Across {
    int64_t k;
    int to, from;
  };
  Across across(int64_t number) const {
    const int64_t t = number % (hosts_ - 1);
    return {number / (hosts_ - 1), host_behind(1 + t), host_before(1 + t)};
  }

  std::byte* contribution(int64_t sum, int from) const {
    const int64_t slot = (sum % kHostSlots) * (h_ - 1) + (from < index_ ? from : from - 1);
    return staging_.get() + slot * slot_bytes_;
  }
  std::byte* sums(int64_t slot) const {
    return staging_.get() + kHostSlots * (h_ - 1) * slot_bytes_ + slot * sum_bytes_;
  }
  std::byte* sum_to_send(int64_t number) const { return sums(number % kHostSlots); }
  std::byte* sum_of(int64_t k, int host) const {
    return sums(kHostSlots + (k % kFoldSlots) * hosts_ + host);
  }

  bool contribute() {
    bool moved = contributions_.retire();
    while (contributions_.open() && contributions_.next() < segments_ * hosts_ * (h_ - 1)) {
      const Within at = within(contributions_.next());
      const int host = host_of(at.sum);
      send(rank_at(host_, at.to), 0, call().input, segment(segment_of(at.sum), host, at.to),
           contributions_.begin());
      moved = true;
    }
    return moved;
  }

  // Whether there is room for the sum with this number.
  bool has_room(int64_t sum) const {
    const int64_t k = segment_of(sum), t = sum % hosts_;
    if (t == hosts_ - 1) return k < folded_ + kFoldSlots;
    return k * (hosts_ - 1) + t < sums_sent_.done() + kHostSlots;
  }

  bool sum_host() {
    const int64_t all = segments_ * hosts_;
    bool moved = contributed_.retire();
    while (summed_ < all && contributed_.done() >= (summed_ + 1) * (h_ - 1) && has_room(summed_)) {
      sum_up(summed_++);
      moved = true;
    }
    const int64_t room = std::min(summed_ + kHostSlots, all) * (h_ - 1);
    while (contributed_.open() && contributed_.next() < room) {
      const Within at = within(contributed_.next());
      const Chunk what = segment(segment_of(at.sum), host_of(at.sum), index_);
      receive(rank_at(host_, at.from), 0, contribution(at.sum, at.from), {0, what.count},
              contributed_.begin());
      moved = true;
    }
    return moved;
  }

  void sum_up(int64_t sum) {
    const int64_t k = segment_of(sum), t = sum % hosts_;
    const int host = host_of(sum);
    const Chunk what = segment(k, host, index_);
    std::vector<const std::byte*> inputs;
    for (int i = 0; i < h_; ++i) {
      inputs.push_back(i == index_ ? call().input + what.begin * item_ : contribution(sum, i));
    }
    ordered_reduce(call().fold_within(), inputs,
                   host == host_ ? sum_of(k, host) : sum_to_send(k * (hosts_ - 1) + t), what.count);
  }

  bool exchange_sums() {
    const bool sent = sums_sent_.retire(), come = sums_come_.retire();
    bool moved = sent || come;
    const int64_t there =
        summed_ / hosts_ * (hosts_ - 1) + std::min<int64_t>(summed_ % hosts_, hosts_ - 1);
    while (sums_sent_.open() && sums_sent_.next() < there) {
      const int64_t number = sums_sent_.next();
      const Across at = across(number);
      send(rank_at(at.to, index_), 0, sum_to_send(number), {0, segment(at.k, at.to, index_).count},
           sum_item_, sums_sent_.begin());
      moved = true;
    }
    while (folded_ < segments_ && sums_come_.done() >= (folded_ + 1) * (hosts_ - 1) &&
           summed_ >= (folded_ + 1) * hosts_) {
      fold(folded_++);
      moved = true;
    }
    const int64_t room = std::min(folded_ + kFoldSlots, segments_) * (hosts_ - 1);
    while (sums_come_.open() && sums_come_.next() < room) {
      const Across at = across(sums_come_.next());
      receive(rank_at(at.from, index_), 0, sum_of(at.k, at.from),
              {0, segment(at.k, host_, index_).count}, sum_item_, sums_come_.begin());
      moved = true;
    }
    return moved;
  }

  void fold(int64_t k) {
    const Chunk what = segment(k, host_, index_);
    // a reduce_scatter's output is the part alone
    const int64_t begin =
        call().op == Collective::reduce_scatter ? what.begin - own_.begin : what.begin;
    std::vector<const std::byte*> inputs;
    for (int host = 0; host < hosts_; ++host) inputs.push_back(sum_of(k, host));
    ordered_reduce(call().fold_over_hosts(parties()), inputs,
                   call().output + begin * item_size(call().result), what.count);
  }

  // A segment is received into the place from which the unreduced one was added up or sent, so only
  // after that. Result k * H + t, which this rank passes on within its host, is that of host m - t
  // modulo H: the own one comes first, the others as they come.
  bool gather() {
    const bool moved = return_segments();
    return pass_segments() || moved;
  }
  int host_of_result(int64_t result) const { return host_before(result % hosts_); }
  // Of a host's segment, the number of the sum.
  int64_t sum_for(int64_t k, int host) const {
    return k * hosts_ + (host - host_ - 1 + 2 * hosts_) % hosts_;
  }

  bool return_segments() {
    const bool sent = returns_.retire(), come = returned_.retire();
    bool moved = sent || come;
    while (returns_.open() && returns_.next() < folded_ * (hosts_ - 1)) {
      const Across at = across(returns_.next());
      send(rank_at(at.to, index_), 1, call().output, segment(at.k, host_, index_),
           returns_.begin());
      moved = true;
    }
    while (returned_.open() && returned_.next() < segments_ * (hosts_ - 1)) {
      const Across at = across(returned_.next());
      if (summed_ <= sum_for(at.k, at.from)) break;
      receive(rank_at(at.from, index_), 1, call().output, segment(at.k, at.from, index_),
              returned_.begin());
      moved = true;
    }
    return moved;
  }

  bool pass_segments() {
    const int64_t all = segments_ * hosts_ * (h_ - 1);
    const bool sent = passed_.retire(), come = arrived_.retire();
    bool moved = sent || come;
    while (passed_.open() && passed_.next() < all) {
      const Within at = within(passed_.next());
      const int64_t k = segment_of(at.sum), t = at.sum % hosts_;
      if (t == 0 ? folded_ <= k : returned_.done() < k * (hosts_ - 1) + t) break;
      send(rank_at(host_, at.to), 1, call().output, segment(k, host_of_result(at.sum), index_),
           passed_.begin());
      moved = true;
    }
    while (arrived_.open() && arrived_.next() < all) {
      const Within at = within(arrived_.next());
      const int64_t k = segment_of(at.sum);
      const int host = host_of_result(at.sum);
      if (contributions_.done() < (sum_for(k, host) + 1) * (h_ - 1)) break;
      receive(rank_at(host_, at.from), 1, call().output, segment(k, host, at.from),
              arrived_.begin());
      moved = true;
    }
    return moved;
  }

  const int h_, hosts_, host_, index_;
  const int64_t sum_item_;  // bytes
  const int64_t segment_;   // elements
  const Chunk own_;
  int64_t segments_ = 0;                // of the longest part
  int64_t summed_ = 0, folded_ = 0;     // sums of this host; segments
  Window contributions_, contributed_;  // within the host, sent and received
  Window sums_sent_, sums_come_;        // between hosts
  Window returns_, returned_;           // results between hosts
  Window passed_, arrived_;             // results within the host
  int64_t slot_bytes_ = 0, sum_bytes_ = 0;
  std::unique_ptr<std::byte[]> staging_;
};

}  // namespace

int64_t segment_of_levels(int ranks_of_host, int hosts, int64_t item, int64_t partial_item,
                          int64_t budget) {
  const int64_t bytes = kHostSlots * (ranks_of_host - 1) * item +
                        (kHostSlots + int64_t{kFoldSlots} * hosts) * partial_item;
  return std::max<int64_t>(1, std::min(kSegmentBytes / partial_item, budget / bytes));
}

std::unique_ptr<MpiTransfer> make_two_levels(Transport& transport, Agreed agreed, int64_t budget) {
  return std::make_unique<TwoLevels>(transport, std::move(agreed), budget);
}

}  // namespace hero::dist
