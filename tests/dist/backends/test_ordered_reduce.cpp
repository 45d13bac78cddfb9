// The sums of every backend on the host, beside their definitions.
#include <cstring>
#include <string>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "support/catch.h"

#include <hero/dist/backends/ordered_reduce.h>

using namespace hero;
using namespace hero::test;

namespace {

Array folded(ReduceOp op, bool tree, const std::vector<Array>& inputs, const Array& output) {
  std::vector<const std::byte*> places;
  for (const Array& input : inputs) places.push_back(input.bytes());
  const core::Fold fold = {combine_of(op), tree, inputs[0].dtype(), output.dtype()};
  ordered_reduce(fold, places, output.bytes(), output.numel());
  return output;
}

bool exists(ReduceOp op, DType dtype) { return op != ReduceOp::mean || is_floating(dtype); }

}  // namespace

TEST_CASE("sums of 1 to 33 ranks are the trees and the loops of their definitions") {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (!exists(op, dtype)) continue;
      for (int ranks = 1; ranks <= 33; ++ranks) {
        CAPTURE(dtype, name(op), ranks);
        const int64_t n = ranks % 7 == 0 ? 2500 : 67;  // more than two blocks; less than one
        const std::vector<Array> inputs = all_contributions(ranks, n, dtype);
        const Array output = Array::empty({n}, dtype);
        CHECK(same(folded(op, true, inputs, output), reduced(op, inputs, Order::tree)));
        CHECK(same(folded(op, false, inputs, output), reduced(op, inputs, Order::ranks)));
      }
    }
  }
}

TEST_CASE("from four ranks on the two orders differ in last bits") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const int ranks : {3, 4, 5, 8}) {
      CAPTURE(dtype, ranks);
      const std::vector<Array> inputs = all_contributions(ranks, 2500, dtype);
      CHECK(same(reduced(ReduceOp::sum, inputs, Order::tree),
                 reduced(ReduceOp::sum, inputs, Order::ranks)) == (ranks <= 3));
    }
  }
}

TEST_CASE("a tree of hundreds of ranks is that of its definition") {
  for (const int ranks : {64, 100, 255, 256, 257, 1000}) {
    CAPTURE(ranks);
    const std::vector<Array> inputs = all_contributions(ranks, 19, kFloat32);
    CHECK(same(folded(ReduceOp::mean, true, inputs, Array::empty({19}, kFloat32)),
               reduced(ReduceOp::mean, inputs, Order::tree)));
  }
}

TEST_CASE("a sum may take the place of any of its inputs") {
  for (const int ranks : {2, 4, 5, 13, 16}) {
    for (int place = 0; place < ranks; ++place) {
      CAPTURE(ranks, place);
      const std::vector<Array> inputs = all_contributions(ranks, 1500, kFloat32);
      const Array expected = reduced(ReduceOp::sum, inputs, Order::tree);
      CHECK(
          same(folded(ReduceOp::sum, true, inputs, inputs[static_cast<size_t>(place)]), expected));
    }
  }
}

TEST_CASE("sums of halves in float32 are not rounded, and sums of such sums are the whole tree") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const int group : {1, 2, 4, 8}) {
      for (int groups = 1; groups <= 5; ++groups) {
        CAPTURE(dtype, group, groups);
        const std::vector<Array> inputs = all_contributions(group * groups, 40, dtype);
        std::vector<Array> partial;
        for (int g = 0; g < groups; ++g) {
          const auto begin = inputs.begin() + g * group;
          partial.push_back(
              folded(ReduceOp::sum, true, {begin, begin + group}, Array::empty({40}, kFloat32)));
        }
        const Array whole = folded(ReduceOp::mean, true, partial, Array::empty({40}, kFloat32));
        const std::vector<float> sums = whole.to_vector<float>();
        std::vector<float> means;  // over the groups; the ranks of each are a power of two
        for (const float sum : sums) means.push_back(sum / static_cast<float>(group));
        CHECK(
            same(Array::from(means, {40}).to(dtype), reduced(ReduceOp::mean, inputs, Order::tree)));
      }
    }
  }
}
