#pragma once
// How N ranks find out in 2 log2 N short messages each whether all have stated the same.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <hero/dist/backends/digest.h>

namespace hero::dist {

/// What is known of some ranks' statements together.
struct StatementSummary {
  Digest least, greatest;  ///< of the statements; the same where they agree
  Digest balance;          ///< the sum of what must add up to nothing over all ranks
  std::string carried;     ///< what the ranks tell each other beside it, as long for each
};

/// One rank's end of one agreement. It sends nothing by itself and waits for nothing: its owner
/// hands on what it wants to send, and what has come, in any order and at any time.
///
/// Ranks exchange what they know with those whose number differs in one bit, bit after bit, so each
/// message doubles the ranks that it speaks for: log2 N messages where N is a power of two. Else,
/// with P the largest one below N, rank P + i first tells rank i, which tells it the result: at
/// most 2 ceil(log2 N) messages sent by a rank.
class Agreement {
 public:
  /// Says to the rank `party` of this agreement what it must hear in that stage.
  using Send = std::function<void(int party, int stage, const StatementSummary& summary)>;

  /// This is rank `me` of `parties`, and it states this. All give as many bytes to carry; where
  /// they do not, they do not agree.
  void state(int me, int parties, const Digest& digest, const Digest& balance, std::string carried);
  /// What another rank has sent; also before state().
  void hear(int stage, StatementSummary summary);
  /// Sends what can be sent by now; true when this rank knows what all have stated.
  bool advance(const Send& send);

  bool stated() const { return parties_ > 0; }
  bool done() const { return stated() && stage_ > last_stage(); }
  /// The rank whose message comes next; -1 where none is missing.
  int waits_for() const { return done() || !stated() ? -1 : sender(stage_); }
  /// When done: whether all have stated the same, and the balance is even.
  bool agree() const;
  /// When all agree: what `party` has given to be carried.
  std::string_view carried(int party) const;

 private:
  int last_stage() const { return bits_ + 1; }
  int folded() const { return parties_ - (1 << bits_); }  // ranks P, P + 1, ..
  int sender(int stage) const;                            // to this rank; -1: nobody
  int receiver(int stage) const;
  void join(int stage, const StatementSummary& heard);

  int me_ = 0, parties_ = 0, bits_ = 0;  // P = 2^bits
  int stage_ = 0;                        // 0: from ranks P + i; 1 to bits: by bit; then: to P + i
  bool sent_ = false;                    // in this stage
  size_t unit_ = 0;                      // bytes that each rank carries
  StatementSummary known_;
  std::map<int, StatementSummary> heard_;  // by stage
};

}  // namespace hero::dist
