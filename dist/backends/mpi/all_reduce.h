#pragma once
// Reductions that exchange parts in segments.
#include <cstdint>
#include <memory>

#include <hero/dist/backends/mpi/transfer.h>

namespace hero::dist {

/// How a reduction is divided, the same on all ranks. A rank adds up its part of the array segment
/// by segment, and buffers up to `slots` segments of every other rank meanwhile.
struct Pieces {
  int64_t segment = 0;  ///< bytes of a segment
  int slots = 0;
  /// Messages under way at a time, of each of the four kinds.
  int window = 0;

  int64_t staged(int parties) const { return segment * slots * (parties - 1); }
};

/// Pieces for this number of parties, for which a rank buffers at most `budget` bytes, or one item
/// of each other rank if that is more. The smaller the segments, the fewer slots.
Pieces pieces_of(int parties, int64_t item, int64_t budget);

/// Sets the budget of all later reductions, which must be the same on all ranks; it is 16 MiB
/// unless a test sets another one.
void set_staging_budget(int64_t bytes);

std::unique_ptr<MpiTransfer> make_reduction(Transport& transport, Agreed agreed);

}  // namespace hero::dist
