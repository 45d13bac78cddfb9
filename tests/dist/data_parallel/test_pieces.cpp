// How the mpi backend cuts a reduction, and that what is staged stays within its budget.
#include <utility>

#include "support/catch.h"

#include <hero/dist/backends/mpi/all_reduce.h>

namespace {

using hero::dist::Pieces;
using hero::dist::pieces_of;
using hero::dist::segment_of_levels;

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

TEST_CASE("what a reduction in two levels stages is within its budget, too", "[dist]") {
  for (const int64_t budget : {kPiecesMiB / 4, kPiecesMiB, 16 * kPiecesMiB}) {
    for (const int h : {2, 4, 8, 16}) {
      for (const int hosts : {2, 3, 16, 128, 1024}) {
        for (const auto& [item, sum] : {std::pair(1, 1), {2, 4}, {4, 4}, {8, 8}}) {
          const int64_t segment = segment_of_levels(h, hosts, item, sum, budget);
          INFO(hosts << " hosts of " << h << ", items of " << item << " bytes, " << budget);
          REQUIRE(segment >= 1);
          REQUIRE(segment * sum <= kPiecesMiB / 4);
          // four sums' contributions, four sums to send, and two of each host that have come
          REQUIRE(segment * (4 * (h - 1) * item + (4 + 2 * hosts) * sum) <= budget);
        }
      }
    }
  }
  CHECK(segment_of_levels(8, 128, 2, 4, 16 * kPiecesMiB) == 15307);  // 60 KiB to another host
  CHECK(segment_of_levels(8, 128, 2, 4, 1) == 1);
}

TEST_CASE("where the budget is less than an item of each rank that is what is staged", "[dist]") {
  const Pieces pieces = pieces_of(1024, 8, 1000);
  CHECK((pieces.segment == 8 && pieces.slots == 1 && pieces.staged(1024) == 8 * 1023));
}

}  // namespace
