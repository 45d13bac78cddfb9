#pragma once
// What ranks with a GPU each check of the nccl backend, as threads and as processes.
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "dist/backends/collective_checks.h"

namespace hero::test {

// Order::native adds up in an order of its own: equal to the ranks' within its rounding errors.
inline void check_native(const Communicator& world, ReduceOp op, DType dtype) {
  const int64_t n = 24 * world.size();
  const std::vector<Array> inputs = all_contributions(world.size(), n, dtype);
  const Array expected = reduced(op, inputs, Order::ranks);
  const Array& mine = inputs[static_cast<size_t>(world.rank())];
  // every partial result of a half may be rounded, and products of N factors stay below 2^N
  const double eps = is_floating(dtype) && item_size(dtype) == 2 ? 0x1p-7 : 0x1p-23;
  const double bound = 2.0 * world.size() * eps * std::exp2(world.size());
  const auto close = [&](const Array& got, const Array& want) {
    const auto a = got.to(kCpu).to_vector<double>(), b = want.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(std::abs(a[i] - b[i]) <= (is_floating(dtype) ? bound : 0.0))) return false;
    }
    return a.size() == b.size();
  };
  const Array x = copy_on(mine, world.device());
  world.all_reduce(x, {.op = op, .order = Order::native});
  expect(close(x, expected), "all_reduce ", name(op), " of ", dtype);
  const Array y = copy_on(mine, world.device());
  world.reduce(y, 0, {.op = op, .order = Order::native});
  expect(close(y, world.rank() == 0 ? expected : mine), "reduce ", name(op), " of ", dtype);
  for (const bool even : {true, false}) {
    CallOptions options{.op = op, .order = Order::native};
    std::vector<int64_t> counts(static_cast<size_t>(world.size()), 24);
    if (!even && world.size() > 1) {
      counts.front() += counts.back();
      counts.back() = 0;
    }
    if (!even) options.counts = counts;
    const Chunk own = ChunkCounts(counts).chunk(world.rank());
    const Array part = Array::empty({own.count}, dtype, world.device());
    world.reduce_scatter(part, copy_on(mine, world.device()), options);
    expect(close(part, expected.slice(0, own.begin, own.begin + own.count).contiguous()),
           "reduce_scatter ", name(op), " of ", dtype);
  }
}

inline void check_native_of_all(const Communicator& world) {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      check_native(world, op, dtype);
    }
  }
}

// Every rank sends three messages first and receives then.
inline void check_ring(const Communicator& world) {
  const int n = world.size(), next = (world.rank() + 1) % n, before = (world.rank() + n - 1) % n;
  check_message_to_oneself(world, world.device());
  std::vector<Work> sends;
  for (int i = 0; i < 3; ++i) {
    const Array x = Array::full({5}, 10 * world.rank() + i, kInt32, world.device());
    sends.push_back(world.send(x, next, {.async = true}));
  }
  for (int i = 0; i < 3; ++i) {
    const Array x = Array::zeros({5}, kInt32, world.device());
    world.recv(x, before);
    expect(same_values(x, Array::full({5}, 10 * before + i, kInt32)), "message ", i);
  }
  for (Work& work : sends) work.wait();
}

// Rank 0 waits for a message of the host that rank 1 sends when it has one of the GPU.
inline void check_message_beside_host(const Communicator& world) {
  const Array there = Array::full({3}, 1.0 + world.rank(), kFloat32, world.device());
  const Array here = Array::zeros({1}, kFloat32);
  if (world.rank() == 0) {
    Work sent = world.send(there, 1, {.async = true});
    world.recv(here, 1);
    sent.wait();
    expect(here.item() == 7.0, "the answer is ", here.item());
  } else {
    world.recv(there, 0);
    expect(there.to(kCpu).to_vector<double>() == std::vector<double>(3, 1.0), "the message");
    world.send(Array::full({1}, 7.0, kFloat32), 0);
  }
}

// Rank 1 fails as soon as all have asked for a sum, which the others read later.
inline double sum_beside_failure(const Communicator& world) {
  const Array x = Array::full({1000}, 1.0 + world.rank(), kFloat32, world.device());
  world.all_reduce(x, {.async = true}).wait();
  check(world.rank() != 1, "no more data");
  expect(!error_of([&] { world.barrier(); }).empty(), "a barrier without rank 1");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 1 has given up
  return x.slice(0, 999, 1000).to(kCpu).item();
}

}  // namespace hero::test
