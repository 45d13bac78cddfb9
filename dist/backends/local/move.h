#pragma once
// LocalMove: the part of a round's copies and reductions that one party does, reading the others'
// memory.
#include <cstdint>

#include <hero/core/exchange.h>
#include <hero/dist/backends/local/group.h>

namespace hero::dist {

/// Moves and adds up the bytes of a round in which all parties have arrived and agree: on the
/// calling thread, or, with an exchange, in its current stream on the arrays' device.
class LocalMove {
 public:
  LocalMove(const LocalRound& round, const Call& call, int me, core::Exchange* exchange)
      : round_(round), call_(call), me_(me), exchange_(exchange) {}
  /// Does all of it; of an all_reduce only the first half, the reduction of the party's own part.
  void pull() const;
  /// Does the second half of an all_reduce: copies the others' reduced parts.
  void pull_reduced() const;

 private:
  int parties() const { return round_.parties(); }
  const Call& call_of(int i) const { return round_.calls[static_cast<size_t>(i)]; }
  void copy_part(const std::byte* from, int64_t from_begin, Chunk to) const;
  void reduce_part(Chunk part, bool in_place) const;

  const LocalRound& round_;
  const Call& call_;
  const int me_;
  core::Exchange* const exchange_;
};

}  // namespace hero::dist
