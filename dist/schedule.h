#pragma once
// Schedules of a pipeline: in which order a rank runs the forwards and backwards of its stages.
// They are data, the same on every rank that asks; dist/pipeline.h runs them. p ranks, m
// micro-batches, v chunks a rank.
#include <cstdint>
#include <string>
#include <vector>

namespace hero::dist {

/// One thing that a rank does in a step: a pass of one micro-batch through one of its chunks.
struct Action {
  /// `weights` is the part of a backward that gives the gradients of parameters, where a schedule
  /// lets it run apart; `backward` then gives those of the chunk's input alone.
  enum class Kind : uint8_t { forward, backward, weights };
  Kind kind = Kind::forward;
  int chunk = 0;  ///< which of the rank's chunks: chunk c of rank r is stage c p + r of the model
  int micro = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

/// "F3", "B3" and "W3" are the passes of micro-batch 3 through chunk 0, "F3.1" that through
/// chunk 1.
std::string to_string(const Action& action);

/// In which order forwards and backwards alternate. In every schedule a chunk's forwards run in the
/// order of micro-batches and its backwards do, so gradients are added up in that order. At equal
/// times of all passes a rank is idle for (p - 1) / (m + p - 1) of a step, the bubble, or
/// (p - 1) / (v m + p - 1) where its part of the model is cut into v chunks. A zero bubble's is
/// smaller, since the gradients of weights, for which no other rank waits, fill it.
class Schedule {
 public:
  /// All forwards, then all backwards: m micro-batches wait for backward at a time. Huang et al.,
  /// arXiv 1811.06965.
  static Schedule gpipe() { return {Type::gpipe, 1}; }
  /// As many forwards as there are ranks behind this one, then one forward and one backward in
  /// turn: min(p - rank, m) micro-batches wait. Narayanan et al., arXiv 2006.09503
  /// (PipeDream-flush).
  static Schedule one_f_one_b() { return {Type::one_f_one_b, 1}; }
  /// 1F1B over `chunks` chunks a rank, p micro-batches through each before the next one's turn,
  /// which makes the bubble smaller by that factor where p divides m; at most min(v m, 2 (p - rank
  /// - 1) + (v - 1) p + 1) pairs of chunk and micro-batch wait. Each border between stages costs as
  /// many bytes as in the others, and there are v times as many. Narayanan et al., arXiv
  /// 2104.04473. An Error for less than one chunk.
  static Schedule interleaved(int chunks);

  /// 1F1B in which the gradients of weights come apart, `rank` micro-batches after the backward
  /// that they belong to, so that they are computed where 1F1B waits: ZB-H1 of Qi et al., arXiv
  /// 2401.10241. With passes of F, B and W ticks, W <= F, and p <= m a step takes m (F + B + W) +
  /// (p - 1) (F + B - W) ticks, where 1F1B takes (m + p - 1) (F + B + W). At most min(p - rank, m)
  /// micro-batches wait for backward and min(rank + 1, m) for the gradients of weights, min(p, m)
  /// together, which is what 1F1B's first rank holds.
  static Schedule zero_bubble() { return {Type::zero_bubble, 1}; }

  /// The schedule of a name(); an Error where there is none.
  static Schedule named(const std::string& name);

  int chunks() const { return chunks_; }
  /// Whether the gradients of weights are actions of their own.
  bool splits_backward() const { return type_ == Type::zero_bubble; }
  /// "gpipe", "1f1b", "interleaved(2)", "zero_bubble".
  std::string name() const;
  /// What `rank` of `ranks` does in a step, in order: each of its chunks' forwards, backwards and
  /// gradients of weights once. An Error unless there are ranks and micro-batches and the rank is
  /// one of them.
  std::vector<Action> actions(int rank, int ranks, int micro_batches) const;

 private:
  enum class Type : uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
  Schedule(Type type, int chunks) : type_(type), chunks_(chunks) {}

  Type type_;
  int chunks_;
};

}  // namespace hero::dist
