// The tree of ranks, what they say of who waits, and when rank 0 takes it for a deadlock.
#include <algorithm>
#include <bit>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

#include <hero/dist/backends/mpi/rank_tree.h>
#include <hero/dist/backends/mpi/waiting.h>

namespace {

using namespace hero::dist;

std::vector<int> sorted(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

TEST_CASE("every rank is below rank 0, by few steps and with few below it", "[dist][tree]") {
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 100, 1000, 1024, 1025}) {
    CAPTURE(size);
    const int bits = std::bit_width(static_cast<unsigned>(size)) - 1;  // P = 2^bits <= size
    std::vector<std::vector<int>> below(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      const RankTree tree(rank, size);
      REQUIRE((tree.parent(rank) == -1) == (rank == 0));
      if (rank > 0) below[static_cast<size_t>(tree.parent(rank))].push_back(rank);
      int steps = 0;
      for (int up = rank; up > 0; up = tree.parent(up)) ++steps;
      REQUIRE(steps <= bits + 1);
    }
    std::vector<int> part(static_cast<size_t>(size), 1);
    for (int rank = size - 1; rank > 0; --rank) {
      part[static_cast<size_t>(RankTree(0, size).parent(rank))] += part[static_cast<size_t>(rank)];
    }
    for (int rank = 0; rank < size; ++rank) {
      const RankTree tree(rank, size);
      REQUIRE(sorted(tree.children()) == below[static_cast<size_t>(rank)]);
      REQUIRE(static_cast<int>(tree.children().size()) <= bits + 1);
      REQUIRE(tree.part() == part[static_cast<size_t>(rank)]);
      for (const int child : tree.children()) {  // who exchanges summaries with this rank
        const bool one_bit = std::has_single_bit(static_cast<unsigned>(child ^ rank));
        REQUIRE((one_bit || child == rank + (1 << bits)));
      }
    }
  }
}

TEST_CASE("lists of ranks are runs, one for a regular group", "[dist][tree]") {
  const std::vector<std::vector<int>> lists = {
      {}, {5}, {0, 1, 2, 3}, {3, 11, 19, 27}, {0, 1, 4, 5, 8, 9}, {0, 2, 4, 5, 6, 100}, {7, 1000}};
  for (const auto& list : lists) CHECK(ranks_of(runs_of(list)) == list);
  CHECK(runs_of(lists[2]).size() == 1);
  CHECK(runs_of(lists[3]).size() == 1);
  std::vector<int> all = {1, 5};
  add_ranks(all, {0, 5, 9});
  CHECK(all == std::vector<int>{0, 1, 5, 9});
}

CallKey call(uint64_t group, uint64_t sequence) { return {{group, -1, -1}, sequence}; }

WaitReport of_rank(int rank, uint64_t sequence, const std::string& text) {
  WaitReport report;
  report.here[call(7, sequence)] = {rank};
  report.blocked[text] = {rank};
  return report;
}

TEST_CASE("what ranks say is joined, and comes over the wire as it was", "[dist][waiting]") {
  WaitReport all = of_rank(1, 4, "barrier");
  all.add(of_rank(3, 4, "barrier"));
  all.add(of_rank(2, 5, "recv"));
  WaitReport ended, also;
  ended.finished = {{Told{{{{7, -1, -1}, 4}}, {}}, {0}}};  // calls 0 to 3
  also.finished = {{Told{{{{7, -1, -1}, 4}}, {}}, {5}}};
  all.add(ended);
  all.add(also);
  all.add(also);
  CHECK(all.here.at(call(7, 4)) == std::vector<int>{1, 3});
  CHECK(all.standing() == 5);
  CHECK(all.finished.size() == 1);
  CHECK(all.finished_without(call(7, 4)) == std::vector<int>{0, 5});
  CHECK(all.finished_without(call(7, 3)).empty());
  CHECK(all.finished_without(call(8, 0)) == std::vector<int>{0, 5});
  CHECK(all.text(3) == "barrier");
  CHECK(all.text(2) == "recv");
  CHECK(all.text(0).empty());
  Packet packet;
  put_wait_report(packet, all);
  CHECK(take_wait_report(packet) == all);
}

TEST_CASE("a call is told by all when as many have begun it as it has parties", "[dist][waiting]") {
  const Lane lane{7, -1, -1};
  ToldByAll all, two;
  all.add(Told{{{lane, 5}}, {}});
  two.add(Told{{{lane, 3}}, {}});
  two.add(Told{{{lane, 9}}, {call(7, 1)}});
  two.add(Told{});  // no member
  all.add(two);
  Packet packet;
  put_told_by_all(packet, all);
  const ToldByAll heard = take_told_by_all(packet);
  for (const ToldByAll* told : std::initializer_list<const ToldByAll*>{&all, &heard}) {
    CHECK(told->has(call(7, 2), 3));
    CHECK_FALSE(told->has(call(7, 3), 3));  // one has begun only 0 to 2
    CHECK_FALSE(told->has(call(7, 1), 3));  // one has not told of it
    CHECK_FALSE(told->has(call(7, 2), 4));  // the fourth has begun none
    CHECK_FALSE(told->has(call(8, 0), 1));
  }
}

WaitAnswer waits(uint64_t told, uint64_t heard) {
  WaitAnswer answer;
  answer.told = told;
  answer.heard = heard;
  answer.in = {{1, "barrier"}};
  return answer;
}

// What two answers, one after the other, are taken for.
bool deadlock(const WaitAnswer& first, const WaitAnswer& second) {
  DeadlockSearch search;
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  REQUIRE_FALSE(search.asks(false));
  REQUIRE(search.asks(true));
  REQUIRE_FALSE(search.asks(true));  // while it is not answered
  REQUIRE_FALSE(search.answer(first));
  return search.asks(true) && search.answer(second);
}

TEST_CASE("a deadlock is certain when two answers agree and nothing is under way",
          "[dist][waiting]") {
  CHECK(deadlock(waits(5, 5), waits(5, 5)));
  CHECK_FALSE(deadlock(waits(5, 4), waits(5, 5)));  // something was under way
  CHECK_FALSE(deadlock(waits(5, 5), waits(6, 6)));  // and here was told in between
  WaitAnswer computes = waits(5, 5);
  computes.blocked = false;
  CHECK_FALSE(deadlock(waits(5, 5), computes));
  CHECK_FALSE(deadlock(computes, waits(5, 5)));
  WaitAnswer ended = waits(5, 5);
  ended.in.clear();
  CHECK_FALSE(deadlock(ended, ended));  // all programs have ended
}

TEST_CASE("a deadlock names the lowest ranks", "[dist][waiting]") {
  WaitAnswer all;
  for (int rank = 11; rank >= 0; --rank) {
    WaitAnswer one;
    one.told = 2;
    one.in = {{rank, "barrier"}};
    all.add(one);
  }
  CHECK(all.told == 24);
  const std::string text = DeadlockSearch::text(all);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring(
                       "deadlock: every rank waits: rank 0 in barrier; rank 1 in barrier; "));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("rank 7 in barrier; and further ranks"));
  CHECK(text.find("rank 8") == std::string::npos);
}

}  // namespace
