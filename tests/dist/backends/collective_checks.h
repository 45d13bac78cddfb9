#pragma once
// What every backend's collectives must give, beside its definition, in plain loops.
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "dist/ranks.h"
#include "support/tree.h"

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

// What rank `rank` contributes: small whole numbers for integers, so that no sum wraps, and floats
// whose sums round in every dtype, so that their order shows.
inline Array contribution(int rank, int64_t n, DType dtype) {
  if (is_floating(dtype)) {
    std::vector<double> values =
        noise({n}, kFloat64, static_cast<uint64_t>(rank) + 1).to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) values[i] /= 3.0 + static_cast<double>(i % 5);
    return Array::from(values, {n}).to(dtype);
  }
  return make(
      {n},
      [&](int64_t i) { return static_cast<double>((i * 7 + rank * 3) % (dtype == kBool ? 2 : 3)); },
      dtype);
}

// Products of many integers wrap.
template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
    if (op == ReduceOp::product) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    }
  }
  if (op == ReduceOp::product) return a * b;
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  return a + b;
}

// The definition of Order::ranks, in a plain loop: rank 0's element, then rank 1's, ...
template <class T>
T left_of(ReduceOp op, const std::vector<std::vector<T>>& values, size_t element) {
  T sum = values[0][element];
  for (size_t rank = 1; rank < values.size(); ++rank) {
    sum = combine(op, sum, values[rank][element]);
  }
  return sum;
}

template <class T>
inline Array reduced_in(ReduceOp op, const std::vector<Array>& inputs, Order order) {
  std::vector<std::vector<T>> values;
  for (const Array& input : inputs) values.push_back(input.to_vector<T>());
  const auto join = [op](T a, T b) { return combine(op, a, b); };
  std::vector<T> sum;
  for (size_t i = 0; i < values[0].size(); ++i) {
    sum.push_back(order == Order::tree ? hero_test::tree_of(values, i, 0, values.size(), join)
                                       : left_of(op, values, i));
    if (op == ReduceOp::mean) sum.back() = sum.back() / static_cast<T>(inputs.size());
  }
  return Array::from(sum, inputs[0].shape());
}

inline Array reduced(ReduceOp op, const std::vector<Array>& inputs, Order order) {
  const DType dtype = inputs[0].dtype();
  if (dtype == kFloat64) return reduced_in<double>(op, inputs, order);
  if (is_floating(dtype)) return reduced_in<float>(op, inputs, order).to(dtype);
  return reduced_in<int64_t>(op, inputs, order).to(dtype);  // bool: any number but 0 is true
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

inline void check_reductions(const Communicator& world, ReduceOp op, Order order, DType dtype,
                             int64_t n, Device device = kCpu) {
  const std::vector<Array> inputs = all_contributions(world.size(), n, dtype);
  const Array expected = reduced(op, inputs, order);
  const Array& mine = inputs[static_cast<size_t>(world.rank())];
  const auto what = [&] {
    return std::string(name(op)) + " in the order " + name(order) + " of " + std::to_string(n) +
           " " + to_string(dtype) + " on " + std::to_string(world.size()) + " ranks";
  };
  const Array x = copy_on(mine, device);
  world.all_reduce(x, {.op = op, .order = order});
  expect(same_values(x, expected), "all_reduce, ", what());
  const int root = world.size() - 1;
  const Array y = copy_on(mine, device);
  world.reduce(y, root, {.op = op, .order = order});
  expect(same_values(y, world.rank() == root ? expected : mine), "reduce, ", what());
}

inline void check_reduce_scatter(const Communicator& world, ReduceOp op, Order order, DType dtype,
                                 const Parts& parts, Device device = kCpu) {
  const std::vector<Array> inputs = all_contributions(world.size(), parts.total, dtype);
  const Array expected = parts.own_of(reduced(op, inputs, order));
  CallOptions options = parts.options;
  options.op = op;
  options.order = order;
  const Array input = copy_on(inputs[static_cast<size_t>(world.rank())], device);
  const Array output = Array::zeros({parts.own}, dtype, device);
  world.reduce_scatter(output, input, options);
  expect(same_values(output, expected), "reduce_scatter, ", name(order));
  expect(same_values(input, contribution(world.rank(), parts.total, dtype)), "an unchanged input");
  const Array place = input.slice(0, parts.own_begin, parts.own_begin + parts.own);
  world.reduce_scatter(place, input, options);
  expect(same_values(place, expected), "reduce_scatter in place, ", name(order));
}

// Halves into float32: sums that are not rounded.
inline void check_float_sums(const Communicator& world, Order order, DType dtype,
                             const Parts& parts, Device device = kCpu) {
  const std::vector<Array> inputs = all_contributions(world.size(), parts.total, dtype);
  std::vector<Array> floats;
  for (const Array& input : inputs) floats.push_back(input.to(kFloat32));
  CallOptions options = parts.options;
  options.order = order;
  const Array output = Array::zeros({parts.own}, kFloat32, device);
  world.reduce_scatter(output, copy_on(inputs[static_cast<size_t>(world.rank())], device), options);
  expect(same_values(output, parts.own_of(reduced(ReduceOp::sum, floats, order))),
         "reduce_scatter of halves into float32, ", name(order));
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
  core::backend(device).run(core::call::Copy{mine, place});
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
  std::vector<double> sent, expected;
  std::vector<int64_t> to_each, from_each;
  const int me = world.rank();
  for (int i = 0; i < world.size(); ++i) {
    to_each.push_back(me + 2 * i);
    from_each.push_back(i + 2 * me);
    sent.insert(sent.end(), static_cast<size_t>(me + 2 * i), 10 * me + i);
    expected.insert(expected.end(), static_cast<size_t>(i + 2 * me), 10 * i + me);
  }
  const auto array = [&](const std::vector<double>& values) {
    return Array::from(values, {static_cast<int64_t>(values.size())}).to(dtype).to(device);
  };
  const Array output = array(std::vector<double>(expected.size()));
  world.all_to_all(output, array(sent), {.send_counts = to_each, .recv_counts = from_each});
  expect(same_values(output, array(expected)), "all_to_all with counts");
  const Array even = Array::zeros({world.size()}, dtype, device);
  world.all_to_all(even, copy_on(contribution(me, world.size(), dtype), device));
  for (int i = 0; i < world.size(); ++i) {
    expect(same_values(even.slice(0, i, i + 1),
                       contribution(i, world.size(), dtype).slice(0, me, me + 1)),
           "all_to_all of one element each");
  }
}

// Sums within pairs of neighbours, and of these over the pairs, three of them under way at once:
// the second of each begins when its first is complete, and both together are the sum over all
// ranks.
inline void check_sum_after_sum(const Communicator& world, DType dtype, Device device = kCpu) {
  if (world.size() % 2 != 0) return;
  const Communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
  const Communicator pairs = world.split(world.rank() % 2, world.rank(), "pairs");
  const bool half = is_half(dtype);
  std::vector<Array> sums, inputs;
  std::vector<Work> works;
  for (const int64_t n : {6, 4000, 2}) {
    inputs.push_back(copy_on(contribution(world.rank(), n, dtype), device));
    sums.push_back(Array::zeros({n / 2}, half ? kFloat32 : dtype, device));
    const Work within = pair.reduce_scatter(sums.back(), inputs.back(), {.async = true});
    works.push_back(pairs.all_reduce(sums.back(), {.async = true, .after = within}));
  }
  for (size_t i = works.size(); i-- > 0;) works[i].wait();
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t n = inputs[i].numel(), part = n / 2;
    const Array whole =
        reduced(ReduceOp::sum, all_contributions(world.size(), n, dtype), Order::tree);
    const Array own = whole.slice(0, pair.rank() * part, (pair.rank() + 1) * part).contiguous();
    expect(same_values(sums[i].to(dtype), own), "a sum after a sum of ", dtype);
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
      for (const Order order : {Order::tree, Order::ranks}) {
        for (const int64_t n : sizes) check_reductions(world, op, order, dtype, n, device);
        check_reduce_scatter(world, op, order, dtype, even, device);
        check_reduce_scatter(world, op, order, dtype, uneven, device);
      }
    }
    if (dtype == kFloat16 || dtype == kBFloat16) {
      for (const Order order : {Order::tree, Order::ranks}) {
        check_float_sums(world, order, dtype, even, device);
        check_float_sums(world, order, dtype, uneven, device);
      }
    }
    check_moves(world, dtype, even, device);
    check_moves(world, dtype, uneven, device);
    check_all_to_all(world, dtype, device);
    check_sum_after_sum(world, dtype, device);
  }
}

}  // namespace hero::test
