// Reductions in two levels, without processes: who is where, the bits, and how many bytes go.
#include <cstdint>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "support/catch.h"

#include <hero/dist/backends/hosts.h>
#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/traffic.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

int levels_of(std::vector<int> hosts) { return ranks_of_host(hosts); }

TEST_CASE("ranks lie in two levels where all hosts have the same power of two of neighbours") {
  CHECK(levels_of({0, 0, 1, 1}) == 2);
  CHECK(levels_of({5, 5, 3, 3, 4, 4}) == 2);
  CHECK(levels_of({0, 0, 0, 0, 1, 1, 1, 1}) == 4);
  CHECK(levels_of({}) == 0);
  CHECK(levels_of({0, 0, 0, 0}) == 0);  // one host
  CHECK(levels_of({0, 1, 2, 3}) == 0);  // nobody shares one
  CHECK(levels_of({0, 0, 0, 1}) == 0);  // as many of each
  CHECK(levels_of({0, 0, 1, 1, 2}) == 0);
  CHECK(levels_of({0, 0, 0, 1, 1, 1}) == 0);  // three
  CHECK(levels_of({0, 1, 0, 1}) == 0);        // no neighbours
  CHECK(levels_of({0, 1, 1, 0}) == 0);
  CHECK(levels_of({0, 0, 1, 1, 0, 0}) == 0);  // two runs of one host
  CHECK(levels_of({0, 0, 1, 2, 2, 1}) == 0);
}

// The bits of `inputs` within hosts of h, and over the hosts.
Array in_two_levels(const Call& call, const std::vector<Array>& inputs, size_t h) {
  const int64_t n = inputs[0].numel();
  std::vector<Array> sums;
  const core::Fold within = call.fold_within(),
                   over = call.fold_over_hosts(static_cast<int>(inputs.size()));
  const auto fold = [n](const core::Fold& how, std::span<const Array> of, DType dtype) {
    std::vector<const std::byte*> places;
    for (const Array& one : of) places.push_back(one.bytes());
    const Array sum = Array::empty({n}, dtype);
    ordered_reduce(how, places, sum.bytes(), n);
    return sum;
  };
  for (size_t first = 0; first < inputs.size(); first += h) {
    sums.push_back(fold(within, std::span(inputs).subspan(first, h), within.result));
  }
  return fold(over, sums, call.result);
}

TEST_CASE("sums within hosts and then over them have the bits of one level") {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const size_t h : {2, 4, 8}) {
        for (const size_t hosts : {2, 3, 4, 5, 7, 8}) {
          CAPTURE(dtype, name(op), h, hosts);
          const std::vector<Array> inputs =
              all_contributions(static_cast<int>(h * hosts), 67, dtype);
          Call call;
          call.op = Collective::all_reduce;
          call.dtype = call.result = dtype;
          call.reduce = op;
          CHECK(same(in_two_levels(call, inputs, h), reduced(op, inputs, Order::tree)));
          if (!is_half(dtype) || op != ReduceOp::sum) continue;
          call.result = kFloat32;
          std::vector<Array> floats;
          for (const Array& input : inputs) floats.push_back(input.to(kFloat32));
          CHECK(same(in_two_levels(call, inputs, h), reduced(op, floats, Order::tree)));
        }
      }
    }
  }
}

TEST_CASE("the bytes of a reduction in two levels are those of its messages") {
  const int h = 4, hosts = 3, ranks = h * hosts;
  std::vector<int64_t> uneven(ranks, 5);
  uneven[3] = 0;
  uneven[7] = 1000;
  for (const ChunkCounts& counts : {ChunkCounts::balanced(1207, ranks), ChunkCounts(uneven)}) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      for (const Collective op : {Collective::reduce_scatter, Collective::all_reduce}) {
        Call call;
        call.op = op;
        call.dtype = call.result = dtype;
        call.size = counts.total();
        call.counts = counts;
        call.ranks_of_host = h;
        for (int me = 0; me < ranks; ++me) {
          int64_t within = 0, across = 0;
          for (int owner = 0; owner < ranks; ++owner) {
            const int64_t n = counts.count(owner), item = item_size(dtype);
            const bool my_host = owner / h == me / h, my_index = owner % h == me % h;
            if (!my_index) within += n * item;          // to whom adds it up on this host
            if (my_index && !my_host) across += n * 4;  // a sum in float32
            if (op != Collective::all_reduce) continue;
            if (my_index) within += (h - 1) * n * item;  // a result to the others of this host
            if (owner == me) across += (hosts - 1) * n * item;
          }
          CAPTURE(name(op), dtype, me);
          CHECK(bytes_sent(call, me, ranks) == within + across);
          CHECK(bytes_sent_across(call, me, ranks) == across);
        }
      }
    }
  }
}

}  // namespace
