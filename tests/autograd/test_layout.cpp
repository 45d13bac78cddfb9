// The runs of parts of arrays, compared with elements counted one by one.
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/sharding/layout.h>

using namespace hero;
using layout::Run;

namespace {

struct Alone : RankGroup {
  void add_up(const Array&) override {}
  void largest(const Array&) override {}
};

int64_t below(std::mt19937_64& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

Shape random_shape(std::mt19937_64& random) {
  Shape shape;
  for (int64_t dims = below(random, 5); dims > 0; --dims) shape.push_back(below(random, 7));
  return shape;
}

// Boxes that together are the whole, in any order; some are empty.
std::vector<Box> random_tiling(std::mt19937_64& random, const Shape& whole) {
  std::vector<Box> boxes = {{Shape::filled(whole.size(), 0), whole}};
  for (int64_t cuts = whole.empty() ? 0 : below(random, 7); cuts > 0; --cuts) {
    Box& box = boxes[static_cast<size_t>(below(random, static_cast<int64_t>(boxes.size())))];
    const int d = static_cast<int>(below(random, whole.size()));
    Box rest = box;
    const int64_t kept = below(random, box.extent[d] + 1);
    box.extent[d] = kept;
    rest.offset[d] += kept;
    rest.extent[d] -= kept;
    boxes.push_back(rest);
  }
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

// Where the elements of the boxes lie in the whole, one by one.
std::vector<int64_t> elements_of(const Shape& whole, const std::vector<Box>& boxes) {
  std::vector<int64_t> elements;
  if (boxes.empty()) {
    elements.resize(static_cast<size_t>(whole.numel()));
    std::iota(elements.begin(), elements.end(), 0);
  }
  for (const Box& box : boxes) {
    for (int64_t i = 0; i < box.extent.numel(); ++i) {
      int64_t place = 0, rest = i, stride = 1;
      for (int d = whole.size() - 1; d >= 0; --d) {
        place += (box.offset[d] + rest % box.extent[d]) * stride;
        rest /= box.extent[d];
        stride *= whole[d];
      }
      elements.push_back(place);
    }
  }
  return elements;
}

// The longest runs of a list of elements.
std::vector<Run> runs_of(const std::vector<int64_t>& elements) {
  std::vector<Run> runs;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i > 0 && elements[i] == elements[i - 1] + 1) {
      ++runs.back().count;
    } else {
      runs.push_back({elements[i], static_cast<int64_t>(i), 1});
    }
  }
  return runs;
}

std::vector<Run> all(layout::Runs runs) {
  std::vector<Run> list;
  for (Run run; runs.next(run);) list.push_back(run);
  return list;
}

}  // namespace

TEST_CASE("the runs of an interval of boxes are those of a slice of the boxes' elements") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const Shape whole = random_shape(random);
    std::vector<Box> boxes = random_tiling(random, whole);
    boxes.resize(static_cast<size_t>(below(random, static_cast<int64_t>(boxes.size()) + 1)));
    CAPTURE(whole, layout::text(boxes));
    const std::vector<int64_t> elements = elements_of(whole, boxes);
    const auto numel = static_cast<int64_t>(elements.size());
    REQUIRE(layout::numel(whole, boxes) == numel);
    const int64_t first = below(random, numel + 1), count = below(random, numel - first + 1);
    const std::vector<int64_t> slice(elements.begin() + first, elements.begin() + first + count);
    REQUIRE(all({whole, boxes, first, count}) == runs_of(slice));
    REQUIRE(all({whole, boxes, 0, numel}) == runs_of(elements));
  }
}

TEST_CASE("the runs of all ranks cover the whole exactly once") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 1000; ++round) {
    const Shape whole = random_shape(random);
    const std::vector<Box> tiling = random_tiling(random, whole);
    layout::check_boxes("test", whole, tiling);
    const int64_t groups = 1 + below(random, 4), ranks = 1 + below(random, 4);
    std::vector<std::vector<Box>> of_group(static_cast<size_t>(groups));
    for (const Box& box : tiling) {
      of_group[static_cast<size_t>(below(random, groups))].push_back(box);
    }
    std::vector<int> met(static_cast<size_t>(whole.numel()), 0);
    for (const std::vector<Box>& boxes : of_group) {
      if (boxes.empty()) continue;  // no part at all
      const int64_t numel = layout::numel(whole, boxes);
      for (int64_t r = 0; r < ranks; ++r) {
        const int64_t first = numel * r / ranks, end = numel * (r + 1) / ranks;
        for (const Run& run : all({whole, boxes, first, end - first})) {
          for (int64_t i = 0; i < run.count; ++i) ++met[static_cast<size_t>(run.whole + i)];
        }
      }
    }
    CAPTURE(whole, groups, ranks);
    REQUIRE(std::all_of(met.begin(), met.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("a box of whole rows is one run and so is a part without boxes") {
  CHECK(all({{13, 7}, {}, 45, 20}) == std::vector<Run>{{45, 0, 20}});
  CHECK(all({{13, 7}, {{{2, 0}, {3, 7}}}, 0, 21}) == std::vector<Run>{{14, 0, 21}});
  CHECK(all({{4, 3, 5}, {{{1, 0, 0}, {1, 3, 5}}}, 2, 9}) == std::vector<Run>{{17, 0, 9}});
  CHECK(all({{4, 3, 5}, {{{1, 1, 0}, {2, 2, 5}}}, 0, 20}) ==
        std::vector<Run>{{20, 0, 10}, {35, 10, 10}});
  CHECK(all({{13, 7}, {{{0, 2}, {2, 3}}}, 1, 5}) == std::vector<Run>{{3, 0, 2}, {9, 2, 3}});
  CHECK(all({{}, {}, 0, 1}) == std::vector<Run>{{0, 0, 1}});
  CHECK(all({{}, {{{}, {}}}, 0, 1}) == std::vector<Run>{{0, 0, 1}});
  CHECK(all({{0, 3}, {}, 0, 0}).empty());
  // a line of a matrix that no memory holds is found at once
  constexpr int64_t kMany = int64_t{1} << 31;
  CHECK(all({{kMany, kMany / 2}, {{{0, 5}, {kMany, 2}}}, 2 * (kMany - 1), 2}) ==
        std::vector<Run>{{(kMany - 1) * (kMany / 2) + 5, 0, 2}});
}

TEST_CASE("boxes outside of the whole and boxes that share elements are refused") {
  using Catch::Matchers::ContainsSubstring;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const Box& box :
       {Box{{0}, {3}}, Box{{0, 0}, {14, 7}}, Box{{3, 0}, {11, 7}}, Box{{-1, 0}, {3, 7}},
        Box{{0, 0}, {-1, 7}}, Box{{kMost, 0}, {kMost, 7}}, Box{{0, 0, 0}, {1, 1, 1}}}) {
    CHECK_FALSE(layout::is_inside({13, 7}, box));
    CHECK_THROWS_WITH(layout::check_boxes("test", {13, 7}, {box}),
                      ContainsSubstring("test: the box of offset"));
    CHECK_THROWS_WITH(all({{13, 7}, {box}, 0, 1}), ContainsSubstring("does not lie in"));
  }
  CHECK_THROWS_WITH(
      layout::check_boxes("test", {13, 7}, {{{0, 0}, {13, 4}}, {{12, 3}, {1, 2}}}),
      ContainsSubstring("0:13,0:4 and 12:1,3:2 of an array of shape [13, 7] share elements"));
  CHECK_THROWS_WITH(all({{13, 7}, {{{0, 0}, {2, 2}}}, 3, 2}), ContainsSubstring("lie outside"));
  CHECK_THROWS_WITH(all({{13, 7}, {}, -1, 2}), ContainsSubstring("lie outside"));
}

TEST_CASE("a leaf says of which boxes it holds a part") {
  const Tensor w = zeros({4}, {.requires_grad = true});
  const auto part = [&](std::vector<Box> boxes, int64_t first) {
    set_part(w, w.array(),
             std::make_shared<const Partition>(
                 Partition{{13, 7}, std::move(boxes), first, std::make_shared<Alone>()}));
  };
  part({{{0, 2}, {13, 3}}}, 5);
  CHECK(describe_part(w) == "elements 5 to 8 of 0:13,2:3 of a parameter of shape [13, 7]");
  CHECK(whole_shape(w) == Shape{13, 7});
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(part({{{0, 2}, {13, 3}}}, 36), ContainsSubstring("set_part: 4 elements from"));
  CHECK_THROWS_WITH(part({{{0, 5}, {13, 3}}}, 0), ContainsSubstring("set_part: the box of offset"));
  CHECK(describe_part(w) == "elements 5 to 8 of 0:13,2:3 of a parameter of shape [13, 7]");
}
