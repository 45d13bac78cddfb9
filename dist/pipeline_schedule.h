#pragma once
// Schedules of a pipeline: the order in which a rank runs the forward and backward passes of its
// stages. A schedule is a list of actions, the same on every rank that computes it; Pipeline
// (dist/pipeline.h) runs it. p ranks, m micro-batches, v chunks on each rank.
#include <cstdint>
#include <string>
#include <vector>

namespace hero::dist {

/// An action of a rank in a step: a pass of one micro-batch through one of its chunks.
struct Action {
  /// The kinds of passes. `weights` is the part of a backward pass that computes the gradients of
  /// parameters, if a schedule runs it separately; `backward` then computes only those of the
  /// chunk's input.
  enum class Kind : uint8_t { forward, backward, weights };
  Kind kind = Kind::forward;  ///< forward, backward or weights
  int chunk = 0;  ///< which of the rank's chunks: chunk c of rank r is stage c p + r of the model
  int micro = 0;  ///< which micro-batch

  friend bool operator==(const Action&, const Action&) = default;
};

/// An action as text: "F3", "B3" and "W3" are passes of micro-batch 3 through chunk 0, "F3.1" is
/// one through chunk 1.
std::string to_string(const Action& action);

/// A schedule: the order of forward and backward passes. In every schedule the forward passes of a
/// chunk run in the order of micro-batches, and so do its backward passes, so gradients are added
/// up in that order. If all passes take equal times, a rank is idle for (p - 1) / (m + p - 1) of a
/// step, which is called the bubble, or for (p - 1) / (v m + p - 1) if its part of the model is cut
/// into v chunks. The bubble of zero_bubble() is smaller, since it is filled by the gradients of
/// weights, for which no other rank waits.
class Schedule {
 public:
  /// All forward passes, then all backward passes; up to m micro-batches wait for backward at a
  /// time. Huang et al., arXiv 1811.06965.
  static Schedule gpipe() { return {Type::gpipe, 1}; }
  /// As many forward passes as there are later ranks, then one forward and one backward pass in
  /// turn (1F1B); up to min(p - rank, m) micro-batches wait for backward. Narayanan et al., arXiv
  /// 2006.09503 (PipeDream-flush).
  static Schedule one_f_one_b() { return {Type::one_f_one_b, 1}; }
  /// 1F1B with `chunks` chunks on each rank, where p micro-batches pass through a chunk before the
  /// next chunk runs. If p divides m, the bubble is smaller by the factor v. At most min(v m, 2 (p
  /// - rank - 1) + (v - 1) p + 1) pairs of chunk and micro-batch wait for backward. As many bytes
  /// cross each border between stages as in other schedules, and there are v times as many borders.
  /// Narayanan et al., arXiv 2104.04473. Throws an Error for less than one chunk.
  static Schedule interleaved(int chunks);

  /// 1F1B in which the gradients of weights are computed separately, `rank` micro-batches after the
  /// backward pass to which they belong, so that they fill the times in which 1F1B waits: ZB-H1 of
  /// Qi et al., arXiv 2401.10241. With passes of F, B and W ticks, W <= F, and p <= m a step takes
  /// m (F + B + W) + (p - 1) (F + B - W) ticks, where 1F1B takes (m + p - 1) (F + B + W). At most
  /// min(p - rank, m) micro-batches wait for backward and min(rank + 1, m) for the gradients of
  /// weights, min(p, m) together, which is what 1F1B's first rank holds.
  static Schedule zero_bubble() { return {Type::zero_bubble, 1}; }

  /// The schedule with this name(). Throws an Error if there is none.
  static Schedule named(const std::string& name);

  /// The number of chunks on each rank, v.
  int chunks() const { return chunks_; }
  /// True if the gradients of weights are actions of their own.
  bool splits_backward() const { return type_ == Type::zero_bubble; }
  /// The name: "gpipe", "1f1b", "interleaved(2)" or "zero_bubble".
  std::string name() const;
  /// The actions of `rank` of `ranks` in a step, in order: each forward pass, backward pass and
  /// gradients of weights of its chunks once. Throws an Error unless there are ranks and
  /// micro-batches and the rank is one of them.
  std::vector<Action> actions(int rank, int ranks, int micro_batches) const;

 private:
  enum class Type : uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
  Schedule(Type type, int chunks) : type_(type), chunks_(chunks) {}

  Type type_;
  int chunks_;
};

}  // namespace hero::dist
