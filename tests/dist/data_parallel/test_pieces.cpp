// How the mpi backend cuts a reduction, and that what is staged stays within its budget.
#include "support/catch.h"

#include <hero/dist/backends/mpi/all_reduce.h>

namespace {

using hero::dist::Pieces;
using hero::dist::pieces_of;

constexpr int64_t kPiecesMiB = int64_t{1} << 20;

TEST_CASE("what a reduction stages is within its budget on any number of ranks", "[dist]") {
  for (const int64_t budget : {kPiecesMiB / 4, kPiecesMiB, 16 * kPiecesMiB}) {
    for (int parties = 2; parties <= 16384; parties += parties < 70 ? 1 : 97) {
      for (const int64_t item : {1, 2, 4, 8}) {
        const Pieces pieces = pieces_of(parties, item, budget);
        INFO(parties << " ranks, items of " << item << " bytes, " << budget);
        REQUIRE(pieces.segment >= item);
        REQUIRE(pieces.segment % item == 0);
        REQUIRE(pieces.segment <= kPiecesMiB / 4);
        REQUIRE(pieces.slots >= 1);
        REQUIRE(pieces.staged(parties) <= budget);
        REQUIRE(pieces.window == 256);
      }
    }
  }
}

TEST_CASE("a thousand ranks stage 16 MiB in segments of 8 KiB", "[dist]") {
  const Pieces few = pieces_of(2, 4, 16 * kPiecesMiB), many = pieces_of(1024, 4, 16 * kPiecesMiB);
  CHECK((few.segment == kPiecesMiB / 4 && few.slots == 4));
  CHECK((many.segment >= 8192 && many.slots == 2));
  CHECK(many.staged(1024) > 15 * kPiecesMiB);
}

TEST_CASE("where the budget is less than an item of each rank that is what is staged", "[dist]") {
  const Pieces pieces = pieces_of(1024, 8, 1000);
  CHECK((pieces.segment == 8 && pieces.slots == 1 && pieces.staged(1024) == 8 * 1023));
}

}  // namespace
