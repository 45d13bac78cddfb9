#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

const std::vector<int> kWorlds = {1, 2, 3, 4, 5, 8};
const std::vector<DType> kDTypes = {kBool,    kUInt8,    kInt32,   kInt64,
                                    kFloat16, kBFloat16, kFloat32, kFloat64};
const std::vector<ReduceOp> kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::mean};

// What rank `rank` contributes: small whole numbers for integers, so that nothing wraps.
Array contribution(int rank, int64_t n, DType dtype) {
  if (is_floating(dtype)) return noise({n}, dtype, static_cast<uint64_t>(rank) + 1);
  return make(
      {n},
      [&](int64_t i) { return static_cast<double>((i * 7 + rank * 3) % (dtype == kBool ? 2 : 3)); },
      dtype);
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  if (op == ReduceOp::product) return a * b;
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  return a + b;
}

// The definition, in a plain loop: rank 0's element, then rank 1's, ...
template <class T>
Array reduced_in(ReduceOp op, const std::vector<Array>& inputs) {
  std::vector<T> sum = inputs[0].to_vector<T>();
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    const std::vector<T> next = inputs[rank].to_vector<T>();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = combine(op, sum[i], next[i]);
  }
  if (op == ReduceOp::mean) {
    for (T& value : sum) value = value / static_cast<T>(inputs.size());
  }
  return Array::from(sum, inputs[0].shape());
}

Array reduced(ReduceOp op, const std::vector<Array>& inputs) {
  const DType dtype = inputs[0].dtype();
  if (dtype == kFloat64) return reduced_in<double>(op, inputs);
  if (is_floating(dtype)) return reduced_in<float>(op, inputs).to(dtype);
  return reduced_in<int64_t>(op, inputs).to(dtype);  // bool: any number but 0 is true
}

std::vector<Array> all_contributions(int ranks, int64_t n, DType dtype) {
  std::vector<Array> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(contribution(rank, n, dtype));
  return inputs;
}

// 3, 0, 5, 3, 0, ...: uneven, with an empty part.
std::vector<int64_t> uneven_counts(int ranks) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank % 3 == 1 ? 0 : 3 + rank % 3);
  return counts;
}

// What each rank must give and get, for parts of these counts (empty: even parts of `share`).
struct Parts {
  Parts(const Communicator& world, int64_t share, std::vector<int64_t> given)
      : counts(given.empty() ? std::vector<int64_t>(static_cast<size_t>(world.size()), share)
                             : given),
        options{.counts = std::move(given)} {
    for (int i = 0; i < world.size(); ++i) {
      if (i == world.rank()) own_begin = total;
      total += counts[static_cast<size_t>(i)];
    }
    own = counts[static_cast<size_t>(world.rank())];
  }
  Array own_of(const Array& whole) const {
    return whole.slice(0, own_begin, own_begin + own).contiguous();
  }
  std::vector<int64_t> counts;
  CallOptions options;
  int64_t own_begin = 0, own = 0, total = 0;
};

void check_reductions(const Communicator& world, ReduceOp op, DType dtype, int64_t n) {
  const std::vector<Array> inputs = all_contributions(world.size(), n, dtype);
  const Array expected = reduced(op, inputs);
  const Array& mine = inputs[static_cast<size_t>(world.rank())];
  const auto what = [&] {
    return std::string(name(op)) + " of " + std::to_string(n) + " " + to_string(dtype) + " on " +
           std::to_string(world.size()) + " ranks";
  };
  const Array x = mine.clone();
  world.all_reduce(x, {.op = op});
  expect(same(x, expected), "all_reduce, ", what());
  const int root = world.size() - 1;
  const Array y = mine.clone();
  world.reduce(y, root, {.op = op});
  expect(same(y, world.rank() == root ? expected : mine), "reduce, ", what());
}

void check_reduce_scatter(const Communicator& world, ReduceOp op, DType dtype, const Parts& parts) {
  const std::vector<Array> inputs = all_contributions(world.size(), parts.total, dtype);
  const Array expected = parts.own_of(reduced(op, inputs));
  CallOptions options = parts.options;
  options.op = op;
  const Array input = inputs[static_cast<size_t>(world.rank())].clone();
  const Array output = Array::zeros({parts.own}, dtype);
  world.reduce_scatter(output, input, options);
  expect(same(output, expected), "reduce_scatter");
  expect(same(input, contribution(world.rank(), parts.total, dtype)), "an unchanged input");
  const Array place = input.slice(0, parts.own_begin, parts.own_begin + parts.own);
  world.reduce_scatter(place, input, options);
  expect(same(place, expected), "reduce_scatter in place");
}

void check_moves(const Communicator& world, DType dtype, const Parts& parts) {
  const Array whole = contribution(7, parts.total, dtype);
  const Array mine = parts.own_of(whole);
  const int root = world.size() / 2;
  const bool is_root = world.rank() == root;

  const Array gathered = Array::zeros({parts.total}, dtype);
  world.all_gather(gathered, mine, parts.options);
  expect(same(gathered, whole), "all_gather");
  const Array place_of = Array::zeros({parts.total}, dtype);
  const Array place = place_of.slice(0, parts.own_begin, parts.own_begin + parts.own);
  core::backend(kCpu).copy(mine, place);
  world.all_gather(place_of, place, parts.options);
  expect(same(place_of, whole), "all_gather in place");

  const Array at_root = is_root ? Array::zeros({parts.total}, dtype) : Array();
  world.gather(at_root, mine, root, parts.options);
  expect(!is_root || same(at_root, whole), "gather");
  const Array part = Array::zeros({parts.own}, dtype);
  world.scatter(part, is_root ? whole : Array(), root, parts.options);
  expect(same(part, mine), "scatter");
  const Array copy = is_root ? whole.clone() : Array::zeros({parts.total}, dtype);
  world.broadcast(copy, root);
  expect(same(copy, whole), "broadcast");
}

// Rank i sends i + 2 j elements to rank j, each of value 10 i + j.
void check_all_to_all(const Communicator& world, DType dtype) {
  AllToAllOptions options;
  std::vector<double> sent, expected;
  const int me = world.rank();
  for (int i = 0; i < world.size(); ++i) {
    options.send_counts.push_back(me + 2 * i);
    options.recv_counts.push_back(i + 2 * me);
    sent.insert(sent.end(), static_cast<size_t>(me + 2 * i), 10 * me + i);
    expected.insert(expected.end(), static_cast<size_t>(i + 2 * me), 10 * i + me);
  }
  const auto array = [&](const std::vector<double>& values) {
    return Array::from(values, {static_cast<int64_t>(values.size())}).to(dtype);
  };
  const Array output = array(std::vector<double>(expected.size()));
  world.all_to_all(output, array(sent), options);
  expect(same(output, array(expected)), "all_to_all with counts");
  const Array even = Array::zeros({world.size()}, dtype);
  world.all_to_all(even, contribution(me, world.size(), dtype));
  for (int i = 0; i < world.size(); ++i) {
    expect(same(even.slice(0, i, i + 1), contribution(i, world.size(), dtype).slice(0, me, me + 1)),
           "all_to_all of one element each");
  }
}

void check_all(const Communicator& world, const std::vector<DType>& dtypes,
               const std::vector<int64_t>& sizes) {
  for (const DType dtype : dtypes) {
    const Parts even(world, 4, {}), uneven(world, 0, uneven_counts(world.size()));
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const int64_t n : sizes) check_reductions(world, op, dtype, n);
      check_reduce_scatter(world, op, dtype, even);
      check_reduce_scatter(world, op, dtype, uneven);
    }
    check_moves(world, dtype, even);
    check_moves(world, dtype, uneven);
    check_all_to_all(world, dtype);
  }
}

TEST_CASE("every collective gives the bits of a plain loop in rank order", "[dist]") {
  for (const int ranks : kWorlds) {
    run_ranks(ranks, [](Communicator& world) { check_all(world, kDTypes, {0, 1, 3, 67}); });
  }
}

TEST_CASE("collectives of three ranks on two dtypes are clean", "[dist][threads]") {
  run_ranks(3, [](Communicator& world) { check_all(world, {kFloat32, kBFloat16}, {0, 2, 67}); });
}

TEST_CASE("long arrays are reduced as short ones", "[dist]") {
  for (const int ranks : {1, 3, 4}) {
    run_ranks(ranks, [](Communicator& world) {
      for (const DType dtype : {kBFloat16, kFloat32, kInt64}) {
        check_reductions(world, ReduceOp::sum, dtype, 10007);
      }
    });
  }
}

TEST_CASE("the bits of a sum do not depend on who comes first", "[dist][threads]") {
  // 1e8 + 1 - 1e8: every order but the ranks' gives another float.
  const std::vector<float> values = {1e8F, 1.0F, -1e8F, 1.0F};
  const float in_order = ((1e8F + 1.0F) - 1e8F) + 1.0F;
  REQUIRE(in_order != (1e8F - 1e8F) + 1.0F + 1.0F);
  for (int late = 0; late < 4; ++late) {
    run_ranks(4, [&](Communicator& world) {
      for (int round = 0; round < 5; ++round) {
        const int me = world.rank();
        for (int i = 0; i < (me == late ? 200 : 3 * me); ++i) std::this_thread::yield();
        const Array x = Array::full({9}, values[static_cast<size_t>(me)]);
        world.all_reduce(x);
        expect(same(x, Array::full({9}, in_order)), "the sum in rank order");
      }
    });
  }
}

TEST_CASE("halves are rounded once, integers wrap, NaN wins, bool is logic", "[dist]") {
  run_ranks(4, [](Communicator& world) {
    // 256 + 1 is no bfloat16: rounding after each addition would stay at 256.
    const Array half = Array::full({3}, world.rank() == 0 ? 256.0 : 1.0, kBFloat16);
    world.all_reduce(half);
    expect(same(half, Array::full({3}, 260.0, kBFloat16)), "256 + 1 + 1 + 1, rounded to even once");
    // 40000 * 4 overflows float16, its mean does not.
    const Array big = Array::full({2}, 40000.0, kFloat16);
    world.all_reduce(big, {.op = ReduceOp::mean});
    expect(same(big, Array::full({2}, 40000.0, kFloat16)), "the mean of large halves");
    const Array byte = Array::full({2}, int64_t{100}, kUInt8);
    world.all_reduce(byte);
    expect(byte.to_vector<int>()[0] == 400 % 256, "uint8 wraps");
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      const Array x = Array::full({2}, world.rank() == 1 ? nan : world.rank());
      world.all_reduce(x, {.op = op});
      expect(std::isnan(x.to_vector<double>()[1]), "NaN wins");
    }
    const Array any = Array::full({1}, world.rank() == 2 ? 1.0 : 0.0, kBool);
    const Array all = any.clone();
    world.all_reduce(any);
    world.all_reduce(all, {.op = ReduceOp::product});
    expect(any.item<bool>() && !all.item<bool>(), "or and and");
  });
}

TEST_CASE("messages arrive in the order they were sent", "[dist][threads]") {
  run_ranks(3, [](Communicator& world) {
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    std::vector<Work> sends;
    std::vector<Array> kept;
    for (int i = 0; i < 4; ++i) {
      kept.push_back(Array::full({5}, 10 * world.rank() + i, kInt32));
      sends.push_back(world.send(kept.back(), next, {.async = true}));
    }
    for (int i = 0; i < 4; ++i) {
      const Array x = Array::zeros({5}, kInt32);
      world.recv(x, before);
      expect(same(x, Array::full({5}, 10 * before + i, kInt32)), "message ", i);
    }
    for (Work& work : sends) work.wait();
  });
}

TEST_CASE("a barrier lets nobody pass before the last has come", "[dist][threads]") {
  std::atomic<int> arrived{0};
  run_ranks(4, [&](Communicator& world) {
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      world.barrier();
      expect(arrived.load() >= 4 * round, "all ranks at barrier ", round);
      world.barrier();
    }
  });
}

TEST_CASE("a written array counts as written to", "[dist]") {
  run_ranks(2, [](Communicator& world) {
    const Array x = Array::ones({4});
    const uint32_t before = x.storage().version();
    world.broadcast(x, 0);
    expect((x.storage().version() != before) == (world.rank() == 1), "only the receiver's");
  });
}

}  // namespace
