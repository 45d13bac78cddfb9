#pragma once
// Reductions over several hosts, for which HERO_HOST stands: who sends how much to whom.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "dist/mpi/messages.h"

#include <hero/dist/backends/mpi/all_reduce.h>
#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/mesh.h>
#include <hero/dist/simulation.h>

namespace hero::test {

/// What the rank has sent since: messages that carry arrays, and their bytes, by rank.
class Sent {
 public:
  int64_t messages(int to) const { return large_messages_to[at(to)] - messages_[at(to)]; }
  int64_t bytes(int to) const { return large_bytes_to[at(to)] - bytes_[at(to)]; }

 private:
  using Counts = std::array<int64_t, 1024>;
  static size_t at(int to) { return static_cast<size_t>(to); }
  template <class Counters>
  static Counts now(const Counters& counters) {
    Counts counts = {};
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = counters[i].load();
    return counts;
  }
  const Counts messages_ = now(large_messages_to), bytes_ = now(large_bytes_to);
};

// h ranks of each host, or 0 for one level. Parts of one segment.
inline void check_sent(dist::Communicator& world, int h, DType dtype) {
  const int n = world.size(), me = world.rank(), hosts = h > 0 ? n / h : 1;
  const int64_t share = 8192, item = item_size(dtype), sum_item = is_half(dtype) ? 4 : item;
  const Array whole = contribution(me, share * n, dtype), part = Array::zeros({share}, dtype);
  const auto expect_sent = [&](const std::string& what, const Sent& sent, int returned) {
    for (int to = 0; to < n; ++to) {
      const bool within = h == 0 || to / h == me / h, across = h > 0 && to % h == me % h;
      const int64_t there = to == me ? 0 : within ? hosts : across ? 1 : 0;
      const int64_t bytes = within ? item : sum_item;
      expect(sent.messages(to) == there * (1 + returned), what, ": ", sent.messages(to),
             " messages from rank ", me, " to ", to);
      expect(sent.bytes(to) == share * there * (bytes + returned * item), what, ": ",
             sent.bytes(to), " bytes from rank ", me, " to ", to);
    }
  };
  const auto all_bytes = [&](const Sent& sent) {
    int64_t bytes = 0;
    for (int to = 0; to < n; ++to) bytes += sent.bytes(to);
    return bytes;
  };
  world.barrier();
  world.traffic().reset();
  const Sent scattering;
  world.reduce_scatter(part, whole);
  expect_sent("reduce_scatter", scattering, 0);
  expect(all_bytes(scattering) == world.traffic().bytes(), "what the traffic says");
  world.traffic().reset();
  const Sent reducing;
  world.all_reduce(whole);
  expect_sent("all_reduce", reducing, 1);
  expect(all_bytes(reducing) == world.traffic().bytes(), "what the traffic says");
  for (const int root : {0, n - 1}) {
    const Array x = contribution(me, share, dtype);
    world.traffic().reset();
    const Sent sent;
    world.reduce(x, root);
    expect(all_bytes(sent) == world.traffic().bytes(), "what the traffic says of reduce");
    for (int to = 0; to < n; ++to) {
      const bool within = h > 0 && to / h == me / h && to % h == root % h;
      expect((sent.messages(to) > 0) ==
                 (to != me && (h > 0 && me % h != root % h ? within : to == root && me != root)),
             "reduce to ", root, ": from ", me, " to ", to);
    }
  }
}

// NaNs with bits of their own, and zeros of both signs: the bits are those of one level.
inline void check_odd_values(dist::Communicator& world) {
  const int64_t n = 5003;
  for (const ReduceOp op : kOps) {
    const bool compares = op == ReduceOp::min || op == ReduceOp::max;  // chooses one of the NaNs
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      std::vector<Array> all;
      for (int rank = 0; rank < world.size(); ++rank) {
        all.push_back(contribution(rank, n, dtype));
        const int64_t item = item_size(dtype);
        for (int64_t i = rank; i < n; i += 3 + rank % 3) {  // a zero, or a NaN
          std::byte* const at = all.back().bytes() + i * item;
          const bool nan = compares && i % 7 == 0;
          for (int64_t byte = 0; byte < item; ++byte)
            at[byte] = std::byte{nan ? uint8_t{0xff} : uint8_t{0}};
          if (nan) at[0] = std::byte{static_cast<uint8_t>(rank + 1)};
          if (!nan && i % 2 == 0) at[item - 1] = std::byte{0x80};
        }
      }
      std::vector<const std::byte*> inputs;
      for (const Array& one : all) inputs.push_back(one.bytes());
      const Array expected = Array::zeros({n}, dtype);
      ordered_reduce({combine_of(op), true, dtype, dtype}, inputs, expected.bytes(), n);
      const Array x = all[static_cast<size_t>(world.rank())];
      world.all_reduce(x, {.op = op});
      expect(same(x, expected), "odd values, ", name(op), " of ", dtype);
    }
  }
}

// Reductions of many kinds, some over axes of a mesh whose "tensor" ranks are neighbours.
inline void reduce_in_many_ways(dist::Communicator& world, Device device) {
  const int n = world.size();
  const dist::Mesh mesh(world, {{"data", n / 2}, {"tensor", 2}});
  std::vector<int64_t> uneven(static_cast<size_t>(n), 301);
  uneven.front() += 1100;
  uneven.back() = 0;
  const dist::ChunkCounts counts(uneven);
  const dist::Communicator* const groups[] = {&world, &mesh["data"], &mesh["tensor"]};
  for (const dist::Communicator* const group : groups) {
    const int64_t ranks = group->size();
    for (const DType dtype : {kFloat32, kBFloat16, kInt32}) {
      for (const Order order : {Order::tree, Order::ranks}) {
        const std::string unit = std::string(dist::name(order)) + " " + name(dtype);
        group->all_reduce(Array::zeros({10007}, dtype, device), {.order = order, .unit = unit});
        group->reduce_scatter(Array::zeros({50}, dtype, device),
                              Array::zeros({50 * ranks}, dtype, device),
                              {.order = order, .unit = unit});
        for (const int root : {0, static_cast<int>(ranks) - 1}) {
          group->reduce(Array::zeros({333}, dtype, device), root, {.order = order, .unit = unit});
        }
      }
    }
  }
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const int64_t own = uneven[static_cast<size_t>(world.rank())];
    world.reduce_scatter(Array::zeros({own}, dtype, device),
                         Array::zeros({counts.total()}, dtype, device), {.counts = counts});
    if (is_half(dtype)) {  // into float32
      world.reduce_scatter(Array::zeros({own}, kFloat32, device),
                           Array::zeros({counts.total()}, dtype, device), {.counts = counts});
    }
  }
}

// A simulated rank on hosts of h ranks counts what this one does.
inline void check_simulated(dist::Communicator& world, int h) {
  dist::Cluster cluster;
  cluster.per_host = h;
  const dist::Recording recording = dist::record_ranks(
      world.size(), [](dist::Communicator& simulated) { reduce_in_many_ways(simulated, kMeta); },
      cluster, {world.rank()});
  world.traffic().reset();
  reduce_in_many_ways(world, kCpu);
  const std::string real = world.traffic().table();
  const std::string simulated = recording.ranks.front().traffic.table();
  expect(real == simulated, "a simulated rank counts\n", simulated, "\nand this one\n", real);
}

/// HERO_LEVELS says how many ranks of each host there are, or 0 for ranks that lie in another way.
inline void check_hosts(dist::Communicator& world) {
  const char* const text = std::getenv("HERO_LEVELS");
  check(text != nullptr, "hosts: HERO_LEVELS says how many ranks of each host there are");
  const int h = std::atoi(text), n = world.size();
  for (const DType dtype : {kFloat32, kBFloat16, kInt32}) check_sent(world, h, dtype);
  check_odd_values(world);
  for (const int64_t budget : {int64_t{16} << 20, int64_t{100000}}) {
    dist::set_staging_budget(budget);
    std::vector<int64_t> counts(static_cast<size_t>(n), 3001);
    counts.front() += 11000;
    counts.back() = 0;
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kOps) {
        if (op == ReduceOp::mean && !is_floating(dtype)) continue;
        check_reductions(world, op, Order::tree, dtype, 10007);
        check_reduce_scatter(world, op, Order::tree, dtype, Parts(world, 0, counts));
      }
      if (is_half(dtype)) check_float_sums(world, Order::tree, dtype, Parts(world, 0, counts));
      check_reductions(world, ReduceOp::sum, Order::ranks, dtype, 10007);
    }
  }
  if (h == 0) return;
  check_simulated(world, h);
  // groups: of one host, of one rank a host, and all in another order
  const Communicator within = world.split(world.rank() / h, world.rank(), "within"),
                     across = world.split(world.rank() % h, world.rank(), "across"),
                     turned = world.split(0, -world.rank(), "turned");
  for (const Communicator* group : {&within, &across, &turned}) {
    check_reductions(*group, ReduceOp::sum, Order::tree, kBFloat16, 10007);
  }
}

}  // namespace hero::test
