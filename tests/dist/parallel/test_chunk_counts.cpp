#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/backends/mpi/wire.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

// A list of counts as the plain loops over it see it.
void check_against(const ChunkCounts& parts, const std::vector<int64_t>& counts) {
  REQUIRE(parts.size() == static_cast<int>(counts.size()));
  REQUIRE(parts.empty() == counts.empty());
  REQUIRE(parts.total() == std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  REQUIRE(parts.to_vector() == counts);
  REQUIRE(parts.fault() == nullptr);
  int64_t first = 0;
  bool good = true, equal = !counts.empty();
  for (int i = 0; i < parts.size(); ++i) {
    const int64_t count = counts[static_cast<size_t>(i)];
    good = good && parts.count(i) == count && parts.first(i) == first;
    good = good && parts.chunk(i).begin == first && parts.chunk(i).count == count;
    if (count > 0) {
      good = good && parts.chunk_of(first) == i && parts.chunk_of(first + count - 1) == i;
    }
    equal = equal && count == counts.front();
    first += count;
  }
  REQUIRE(good);
  REQUIRE(parts.all_equal() == equal);
}

// Up to 1000 counts, a third of them 0 where `holes`.
std::vector<int64_t> random_counts(std::mt19937_64& random, bool holes) {
  std::vector<int64_t> counts(1 + random() % 1000);
  for (int64_t& count : counts) {
    count = holes && random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 100000);
  }
  return counts;
}

// The first total % ranks parts are one element longer.
std::vector<int64_t> cut_evenly(int64_t total, int ranks) {
  std::vector<int64_t> counts(static_cast<size_t>(ranks), total / ranks);
  for (int i = 0; i < total % ranks; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

TEST_CASE("parts of any counts lie one behind the other", "[dist]") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::vector<int64_t> counts = random_counts(random, i % 2 == 0);
    check_against(ChunkCounts(counts), counts);
  }
  check_against({}, {});
  check_against({0}, {0});
  check_against({0, 0, 7, 0, 2, 0}, {0, 0, 7, 0, 2, 0});
}

TEST_CASE("balanced parts are those of a list with the longer ones first", "[dist]") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const int ranks = 1 + static_cast<int>(random() % 1000);
    const int64_t total = static_cast<int64_t>(random() % (i % 2 == 0 ? 500 : 1u << 30));
    const ChunkCounts parts = ChunkCounts::balanced(total, ranks);
    const std::vector<int64_t> counts = cut_evenly(total, ranks);
    check_against(parts, counts);
    const ChunkCounts list(counts);
    check_against(list, counts);
    REQUIRE((list.is_balanced() && list == parts && list.digest() == parts.digest()));
    REQUIRE((list.is_list() && !parts.is_list() && parts.as_list().is_list()));
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const ChunkCounts most = ChunkCounts::balanced(kMost, 2);
  CHECK((most.first(1) == kMost / 2 + 1 && most.count(1) == kMost / 2));
  CHECK(ChunkCounts::balanced(kMost, 1) == ChunkCounts{kMost});
}

TEST_CASE("chunk counts are equal when their numbers are", "[dist]") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100; ++i) {
    std::vector<int64_t> counts = random_counts(random, true);
    const ChunkCounts parts(counts), again(counts), copy = parts;
    REQUIRE((parts == again && parts == copy && parts.digest() == again.digest()));
    const size_t at = random() % counts.size();
    ++counts[at];
    REQUIRE(!(ChunkCounts(counts) == parts));
    if (counts.size() > 1) {  // the same total, one element moved
      --counts[at == 0 ? 1 : at - 1];
      REQUIRE(!(ChunkCounts(counts) == parts));
    }
  }
  CHECK(!(ChunkCounts{1, 2} == ChunkCounts{2, 1}));
  CHECK(!(ChunkCounts{1, 2}.digest() == ChunkCounts{2, 1}.digest()));
  CHECK(!(ChunkCounts{2, 1} == ChunkCounts{2, 1, 0}));
  CHECK(!(ChunkCounts() == ChunkCounts{0}));
  CHECK(ChunkCounts() == ChunkCounts(std::vector<int64_t>()));
}

TEST_CASE("chunk counts are told as they were given", "[dist]") {
  CHECK(to_string(ChunkCounts{5, 0, 2}) == "[5, 0, 2]");
  CHECK(to_string(ChunkCounts{2, 2, 2}) == "[2, 2, 2]");
  CHECK(to_string(ChunkCounts::balanced(7, 3)) == "even parts");
  CHECK(to_string(ChunkCounts::balanced(7, 3).as_list()) == "[3, 2, 2]");
  CHECK(to_string(ChunkCounts{2, -1, 2}) == "[2, -1, 2]");
}

TEST_CASE("counts that cannot be are kept for an error", "[dist]") {
  CHECK(ChunkCounts{2, 2, -2}.fault() == std::string("a negative count"));
  CHECK(ChunkCounts{-1}.fault() == std::string("a negative count"));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(ChunkCounts{kMost, 0}.fault() == nullptr);
  CHECK(ChunkCounts{kMost, 1}.fault() == std::string("counts of more than 2^63 - 1 elements"));
  CHECK(ChunkCounts{kMost, kMost, kMost}.fault() != nullptr);
  CHECK_THROWS_WITH(ChunkCounts::balanced(-1, 3),
                    ContainsSubstring("chunk counts: -1 elements for 3 chunks"));
  CHECK_THROWS_WITH(ChunkCounts::balanced(3, 0),
                    ContainsSubstring("chunk counts: 3 elements for 0 chunks"));
}

TEST_CASE("an operation refuses counts that cannot be", "[dist]") {
  run_ranks(1, [](Communicator& world) {
    const Array x = Array::zeros({2});
    const auto error = [&](const ChunkCounts& counts) -> std::string {
      try {
        world.all_gather(x, x, {.counts = counts});
      } catch (const Error& thrown) {
        return thrown.what();
      }
      return "";
    };
    expect(error({-2}).starts_with("all_gather: a negative count: [-2]"), "a negative count");
    expect(error({2, 0}).starts_with("all_gather: 2 counts for 1 ranks: [2, 0]"), "too many");
    expect(error({2}).empty(), "its own elements");
  });
}

TEST_CASE("balanced counts are two numbers on the wire, however many ranks there are", "[dist]") {
  const auto sent = [](const ChunkCounts& counts) {
    Call call;
    call.counts = counts;
    Packet packet;
    put_call(packet, call);
    return packet;
  };
  const auto through = [&](const ChunkCounts& counts) {
    Packet packet(sent(counts).bytes());
    return take_call(packet).counts;
  };
  const ChunkCounts uneven = {5, 0, 2};
  for (const ChunkCounts& counts :
       {ChunkCounts(), uneven, ChunkCounts{2, 2, 2}, ChunkCounts{3, 2, 2},
        ChunkCounts::balanced(7, 3), ChunkCounts::balanced(0, 5)}) {
    const ChunkCounts back = through(counts);
    CHECK((back == counts && back.is_list() == counts.is_list()));
    CHECK(to_string(back) == to_string(counts));
  }
  const auto bytes = [&](const ChunkCounts& counts) { return sent(counts).bytes().size(); };
  CHECK(bytes(ChunkCounts::balanced(1 << 20, 1000)) == bytes(ChunkCounts::balanced(8, 4)));
  CHECK(bytes(ChunkCounts(cut_evenly(1003, 1000))) == bytes(ChunkCounts::balanced(8, 4)));
  CHECK(through(uneven).chunk(2).begin == 5);
}

}  // namespace
