#pragma once
// Agreement: N ranks find out, with at most 2 ceil(log2 N) short messages from each, whether all of
// them have made the same statement.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <hero/dist/backends/digest.h>

namespace hero::dist {

/// The statements of several ranks, combined.
struct StatementSummary {
  /// Smallest and largest of the statements' digests; equal if all statements are.
  Digest least, greatest;
  /// The sum of the ranks' balances, which must be zero over all ranks; see balance_of().
  Digest balance;
  /// Bytes that the ranks exchange beside their statements, equally many from each.
  std::string carried;
};

/// One rank's part in one agreement, a state machine that does not communicate by itself: its owner
/// sends the messages that advance() asks for and passes those that it receives to hear(), in any
/// order and at any time.
///
/// In each stage a rank exchanges its summary with the rank whose number differs in one bit
/// (recursive doubling), so each message covers twice as many ranks as the one before: log2 N
/// messages if N is a power of two. Otherwise, with P the largest power of two below N, rank P + i
/// first sends its summary to rank i, which sends back the result: a rank sends at most 2 ceil(log2
/// N) messages.
class Agreement {
 public:
  /// Sends `summary` to rank `party` of this agreement, which passes it to hear(stage, summary).
  using Send = std::function<void(int party, int stage, const StatementSummary& summary)>;

  /// Sets this rank's number `me` among `parties` ranks, and its statement. If the ranks give
  /// `carried` of different lengths, they do not agree.
  void state(int me, int parties, const Digest& digest, const Digest& balance, std::string carried);
  /// Takes the message that another rank has sent for a stage; may be called before state().
  void hear(int stage, StatementSummary summary);
  /// Sends all messages that can be sent by now. Returns true when this rank has the summary of all
  /// ranks' statements.
  bool advance(const Send& send);

  bool stated() const { return parties_ > 0; }
  bool done() const { return stated() && stage_ > last_stage(); }
  /// The rank whose message is needed next; -1 if none is missing.
  int waits_for() const { return done() || !stated() ? -1 : sender(stage_); }
  /// When done: whether all ranks have made the same statement and the balances add up to zero.
  bool agree() const;
  /// When all agree: the bytes that rank `party` passed to state() as `carried`.
  std::string_view carried(int party) const;

 private:
  int last_stage() const { return bits_ + 1; }
  int folded() const { return parties_ - (1 << bits_); }  // how many ranks are numbered P and above
  int sender(int stage) const;  // the rank that sends to this one in the stage; -1: none
  int receiver(int stage) const;
  void join(int stage, const StatementSummary& heard);

  int me_ = 0, parties_ = 0, bits_ = 0;  // P = 2^bits
  int stage_ = 0;                        // 0: from ranks P + i; 1 to bits: by bit; then: to P + i
  bool sent_ = false;                    // whether this rank has sent its message of this stage
  size_t unit_ = 0;                      // bytes that each rank carries
  StatementSummary known_;
  std::map<int, StatementSummary> heard_;  // received summaries, by stage
};

}  // namespace hero::dist
