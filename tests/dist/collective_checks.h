#pragma once
// What every engine's collectives must give, beside a plain loop in rank order.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dist/ranks.h"

#include <hero/dist/dist.h>

namespace hero::test {

using namespace hero::dist;

inline const std::vector<DType> kDTypes = {kBool,    kUInt8,    kInt32,   kInt64,
                                           kFloat16, kBFloat16, kFloat32, kFloat64};
inline const std::vector<ReduceOp> kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min,
                                           ReduceOp::max, ReduceOp::mean};

// The same values, wherever the arrays lie.
inline bool same_values(const Array& a, const Array& b) { return same(a.to(kCpu), b.to(kCpu)); }

// A copy that shares no memory with x.
inline Array copy_on(const Array& x, Device device) {
  return device == x.device() ? x.clone() : x.to(device);
}

// What rank `rank` contributes: small whole numbers for integers, so that nothing wraps.
inline Array contribution(int rank, int64_t n, DType dtype) {
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
inline Array reduced_in(ReduceOp op, const std::vector<Array>& inputs) {
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

inline Array reduced(ReduceOp op, const std::vector<Array>& inputs) {
  const DType dtype = inputs[0].dtype();
  if (dtype == kFloat64) return reduced_in<double>(op, inputs);
  if (is_floating(dtype)) return reduced_in<float>(op, inputs).to(dtype);
  return reduced_in<int64_t>(op, inputs).to(dtype);  // bool: any number but 0 is true
}

inline std::vector<Array> all_contributions(int ranks, int64_t n, DType dtype) {
  std::vector<Array> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(contribution(rank, n, dtype));
  return inputs;
}

// 3, 0, 5, 3, 0, ...: uneven, with an empty part.
inline std::vector<int64_t> uneven_counts(int ranks) {
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

inline void check_reductions(const Communicator& world, ReduceOp op, DType dtype, int64_t n,
                             Device device = kCpu) {
  const std::vector<Array> inputs = all_contributions(world.size(), n, dtype);
  const Array expected = reduced(op, inputs);
  const Array& mine = inputs[static_cast<size_t>(world.rank())];
  const auto what = [&] {
    return std::string(name(op)) + " of " + std::to_string(n) + " " + to_string(dtype) + " on " +
           std::to_string(world.size()) + " ranks";
  };
  const Array x = copy_on(mine, device);
  world.all_reduce(x, {.op = op});
  expect(same_values(x, expected), "all_reduce, ", what());
  const int root = world.size() - 1;
  const Array y = copy_on(mine, device);
  world.reduce(y, root, {.op = op});
  expect(same_values(y, world.rank() == root ? expected : mine), "reduce, ", what());
}

inline void check_reduce_scatter(const Communicator& world, ReduceOp op, DType dtype,
                                 const Parts& parts, Device device = kCpu) {
  const std::vector<Array> inputs = all_contributions(world.size(), parts.total, dtype);
  const Array expected = parts.own_of(reduced(op, inputs));
  CallOptions options = parts.options;
  options.op = op;
  const Array input = copy_on(inputs[static_cast<size_t>(world.rank())], device);
  const Array output = Array::zeros({parts.own}, dtype, device);
  world.reduce_scatter(output, input, options);
  expect(same_values(output, expected), "reduce_scatter");
  expect(same_values(input, contribution(world.rank(), parts.total, dtype)), "an unchanged input");
  const Array place = input.slice(0, parts.own_begin, parts.own_begin + parts.own);
  world.reduce_scatter(place, input, options);
  expect(same_values(place, expected), "reduce_scatter in place");
}

inline void check_moves(const Communicator& world, DType dtype, const Parts& parts,
                        Device device = kCpu) {
  const Array whole = copy_on(contribution(7, parts.total, dtype), device);
  const Array mine = parts.own_of(whole);
  const int root = world.size() / 2;
  const bool is_root = world.rank() == root;

  const Array gathered = Array::zeros({parts.total}, dtype, device);
  world.all_gather(gathered, mine, parts.options);
  expect(same_values(gathered, whole), "all_gather");
  const Array place_of = Array::zeros({parts.total}, dtype, device);
  const Array place = place_of.slice(0, parts.own_begin, parts.own_begin + parts.own);
  core::backend(device).copy(mine, place);
  world.all_gather(place_of, place, parts.options);
  expect(same_values(place_of, whole), "all_gather in place");

  const Array at_root = is_root ? Array::zeros({parts.total}, dtype, device) : Array();
  world.gather(at_root, mine, root, parts.options);
  expect(!is_root || same_values(at_root, whole), "gather");
  const Array part = Array::zeros({parts.own}, dtype, device);
  world.scatter(part, is_root ? whole : Array(), root, parts.options);
  expect(same_values(part, mine), "scatter");
  const Array copy = is_root ? whole.clone() : Array::zeros({parts.total}, dtype, device);
  world.broadcast(copy, root);
  expect(same_values(copy, whole), "broadcast");
}

// Rank i sends i + 2 j elements to rank j, each of value 10 i + j.
inline void check_all_to_all(const Communicator& world, DType dtype, Device device = kCpu) {
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
    return Array::from(values, {static_cast<int64_t>(values.size())}).to(dtype).to(device);
  };
  const Array output = array(std::vector<double>(expected.size()));
  world.all_to_all(output, array(sent), options);
  expect(same_values(output, array(expected)), "all_to_all with counts");
  const Array even = Array::zeros({world.size()}, dtype, device);
  world.all_to_all(even, copy_on(contribution(me, world.size(), dtype), device));
  for (int i = 0; i < world.size(); ++i) {
    expect(same_values(even.slice(0, i, i + 1),
                       contribution(i, world.size(), dtype).slice(0, me, me + 1)),
           "all_to_all of one element each");
  }
}

inline void check_message_to_oneself(const Communicator& world, Device device = kCpu) {
  for (int round = 0; round < 2; ++round) {
    const Array x = Array::full({3}, world.rank() + 10 * round, kFloat32, device);
    const Array y = Array::zeros({3}, kFloat32, device);
    Work sent = world.send(x, world.rank(), {.async = true});
    world.recv(y, world.rank());
    sent.wait();
    expect(same_values(y, x), "a message to oneself");
  }
}

inline void check_all(const Communicator& world, const std::vector<DType>& dtypes,
                      const std::vector<int64_t>& sizes, Device device = kCpu) {
  for (const DType dtype : dtypes) {
    const Parts even(world, 4, {}), uneven(world, 0, uneven_counts(world.size()));
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const int64_t n : sizes) check_reductions(world, op, dtype, n, device);
      check_reduce_scatter(world, op, dtype, even, device);
      check_reduce_scatter(world, op, dtype, uneven, device);
    }
    check_moves(world, dtype, even, device);
    check_moves(world, dtype, uneven, device);
    check_all_to_all(world, dtype, device);
  }
}

}  // namespace hero::test
