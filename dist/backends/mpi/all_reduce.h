#pragma once
// Reductions that exchange parts in segments.
#include <cstdint>
#include <memory>

#include <hero/dist/backends/mpi/transfer.h>

namespace hero::dist {

inline constexpr int64_t kSegmentBytes = int64_t{1} << 18;  ///< at most

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

/// The elements of a segment of a reduction in two levels, over hosts of so many ranks: a rank
/// buffers at most `budget` bytes, or a few items of each rank of its host, in `item` bytes, and of
/// each host, in `partial_item` bytes (of Call::partial_dtype()), if that is more.
int64_t segment_of_levels(int ranks_of_host, int hosts, int64_t item, int64_t partial_item,
                          int64_t budget);

std::unique_ptr<MpiTransfer> make_reduction(Transport& transport, Agreed agreed);
/// Of a call in two levels (Call::two_levels()); make_reduction() calls it.
std::unique_ptr<MpiTransfer> make_two_levels(Transport& transport, Agreed agreed, int64_t budget);

}  // namespace hero::dist
