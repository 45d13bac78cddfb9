#pragma once
// Reductions that exchange parts in segments.
#include <cstdint>
#include <memory>

#include <hero/dist/backends/mpi/transfer.h>

namespace hero::dist {

/// How a reduction is cut, the same on all ranks. A rank adds up its part of the array segment by
/// segment, and holds up to `slots` segments of every other rank until it has.
struct Pieces {
  int64_t segment = 0;  ///< bytes
  int slots = 0;
  /// Messages that are under way at once, of each of the four kinds that there are.
  int window = 0;

  int64_t staged(int parties) const { return segment * slots * (parties - 1); }
};

/// Pieces for so many parties of which at most `budget` bytes are staged, but for one item of each
/// other rank where that is more. The smaller the pieces, the fewer slots.
Pieces pieces_of(int parties, int64_t item, int64_t budget);

/// The budget of every reduction that begins later: 16 MiB unless a test has set another one, which
/// must be the same on all ranks.
void set_staging_budget(int64_t bytes);

std::unique_ptr<MpiTransfer> make_reduction(Transport& transport, Agreed agreed);

}  // namespace hero::dist
