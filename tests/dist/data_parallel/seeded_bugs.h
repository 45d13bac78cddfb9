#pragma once
// Bugs seeded on purpose. Each must become an Error with a name on every rank that can still throw,
// never a hang and never a wrong value, on every backend.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dist/ranks.h"

#include <hero/dist/dist.h>

namespace hero::test {

using namespace hero::dist;

inline Array some(int64_t n = 4, DType dtype = kFloat32) { return Array::zeros({n}, dtype); }

struct Bug {
  const char* name;
  RankProgram program;              // on three ranks; rank 1 has the bug
  std::vector<std::string> errors;  // parts of every rank's message
  // The rank that ends without an error; -1: none; -2: all but rank 1; -3: any may have ended
  // before.
  int silent = -1;
};

// Ranks 0 and 2 do one thing, rank 1 another.
inline RankProgram odd_one(RankProgram others, RankProgram odd) {
  return [others = std::move(others), odd = std::move(odd)](Communicator& world) {
    (world.rank() == 1 ? odd : others)(world);
  };
}

inline RankProgram all_reduce_of(Array (*make)(), CallOptions options = {}) {
  return [make, options](Communicator& world) { world.all_reduce(make(), options); };
}

inline const std::vector<Bug>& mismatches() {
  static const std::vector<Bug> bugs = {
      {"the operation differs",
       odd_one(all_reduce_of([] { return some(); }, {.unit = "fc1"}),
               [](Communicator& world) { world.broadcast(some(), 0, {.unit = "fc1"}); }),
       {"all_reduce (call 0 of 'world', unit 'fc1')", "disagree on the operation",
        "ranks 0, 2 say all_reduce; rank 1 says broadcast"}},
      {"the order differs",
       odd_one(
           [](Communicator& world) {
             world.all_reduce(some(), {.unit = "a"});
             world.all_reduce(some(), {.unit = "b"});
           },
           [](Communicator& world) {
             world.all_reduce(some(), {.unit = "b"});
             world.all_reduce(some(), {.unit = "a"});
           }),
       {"call 0 of 'world'", "disagree on the unit", "ranks 0, 2 say 'a'; rank 1 says 'b'"}},
      {"the dtype differs",
       odd_one(all_reduce_of([] { return some(); }),
               all_reduce_of([] { return some(4, kFloat64); })),
       {"disagree on the dtype", "ranks 0, 2 say float32; rank 1 says float64"}},
      {"the size differs",
       odd_one(all_reduce_of([] { return some(); }), all_reduce_of([] { return some(5); })),
       {"disagree on the size", "ranks 0, 2 say 4 elements; rank 1 says 5 elements"}},
      {"the size of a part differs",
       [](Communicator& world) {
         const int64_t n = world.rank() == 1 ? 3 : 2;
         world.all_gather(some(3 * n), some(n));
       },
       {"all_gather", "disagree on the size", "rank 1 says 9 elements"}},
      {"the root differs",
       [](Communicator& world) { world.broadcast(some(), world.rank() == 1 ? 1 : 0); },
       {"broadcast", "disagree on the root", "ranks 0, 2 say rank 0; rank 1 says rank 1"}},
      {"the reduce op differs",
       odd_one(all_reduce_of([] { return some(); }),
               all_reduce_of([] { return some(); }, {.op = ReduceOp::mean})),
       {"disagree on the reduce op", "ranks 0, 2 say sum; rank 1 says mean"}},
      {"the order differs that a reduction is made in",
       odd_one(all_reduce_of([] { return some(); }),
               all_reduce_of([] { return some(); }, {.order = Order::native})),
       {"disagree on the order", "ranks 0, 2 say tree; rank 1 says native"}},
      {"the unit differs",
       odd_one(all_reduce_of([] { return some(); }, {.unit = "fc1"}),
               all_reduce_of([] { return some(); }, {.unit = "fc2"})),
       {"disagree on the unit", "rank 1 says 'fc2'"}},
      {"the counts differ",
       [](Communicator& world) {
         const bool odd = world.rank() == 1;
         world.all_gather(some(6), some(2), {.counts = {odd ? 1 : 2, 2, odd ? 3 : 2}});
       },
       {"all_gather", "disagree on the counts", "rank 1 says [1, 2, 3]"}},
      {"one rank gives counts, the others none",
       [](Communicator& world) {
         const std::vector<int64_t> counts = {2, 2, 2};
         world.all_gather(some(6), some(2),
                          {.counts = world.rank() == 1 ? counts : std::vector<int64_t>()});
       },
       {"disagree on the counts", "ranks 0, 2 say even parts; rank 1 says [2, 2, 2]"}},
      {"an exchange expects other counts",
       [](Communicator& world) {
         AllToAllOptions options{.recv_counts = {1, 1, 1}};
         if (world.rank() == 1) options.recv_counts = {1, 1, 2};
         world.all_to_all(some(world.rank() == 1 ? 4 : 3), some(3), options);
       },
       {"all_to_all", "rank 2 sends 1 elements to rank 1, which expects 2"}},
      {"a call is skipped",
       odd_one(
           [](Communicator& world) {
             world.barrier();
             world.all_reduce(some());
             world.broadcast(some(), 0);
           },
           [](Communicator& world) {
             world.barrier();
             world.broadcast(some(), 0);
           }),
       {"call 1 of 'world'", "ranks 0, 2 say all_reduce; rank 1 says broadcast"}},
      {"a group's call differs",
       [](Communicator& world) {
         const Communicator all = world.split(0, -world.rank(), "turned");
         all.all_reduce(some(world.rank() == 1 ? 6 : 4));
       },
       {"of 'turned'", "ranks 2, 0 say 4 elements; rank 1 says 6 elements"}},
      {"a message has another size",
       [](Communicator& world) {
         if (world.rank() == 0) world.send(some(4), 1);
         if (world.rank() == 1) world.recv(some(5), 0);
         world.barrier();
       },
       {"send (call 0 of 'world')", "rank 0 says 4 elements; rank 1 says 5 elements"}},
      {"a message has another dtype",
       [](Communicator& world) {
         if (world.rank() == 0) world.send(some(4), 1);
         if (world.rank() == 1) world.recv(some(4, kInt32), 0);
         world.barrier();
       },
       {"disagree on the dtype", "rank 0 says float32; rank 1 says int32"}},
  };
  return bugs;
}

inline const std::vector<Bug>& absences() {
  static const std::vector<Bug> bugs = {
      {"a rank throws before its call",
       odd_one(all_reduce_of([] { return some(); }),
               [](Communicator&) { fail("loader: file is gone"); }),
       {"loader: file is gone"}},
      {"a rank throws between beginning a call and waiting for it",
       odd_one(
           [](Communicator& world) {
             world.all_reduce(some());
             world.barrier();
           },
           [](Communicator& world) {
             const Array x = some();
             Work work = world.all_reduce(x, {.async = true});
             throw std::runtime_error("backward: a NaN");
           }),
       {"backward: a NaN"}},
      {"a rank throws after its call",
       odd_one(
           [](Communicator& world) {
             world.barrier();
             world.barrier();
           },
           [](Communicator& world) {
             world.barrier();
             fail("sgd: no parameters");
           }),
       {"sgd: no parameters"}},
      {"a rank finishes early",
       odd_one(
           [](Communicator& world) {
             world.barrier();
             world.all_reduce(some(), {.unit = "w"});
           },
           [](Communicator& world) { world.barrier(); }),
       {"all_reduce (call 1 of 'world', unit 'w')", "rank 1 has finished without this call"},
       1},
      {"a rank makes one call more",
       odd_one([](Communicator& world) { world.barrier(); },
               [](Communicator& world) {
                 world.barrier();
                 world.all_reduce(some());
               }),
       {"all_reduce (call 1 of 'world')", "has finished without this call"},
       -2},  // only rank 1 is still there
      {"a rank calls the wrong group",
       [](Communicator& world) {
         const Communicator all = world.split(0, 0, "data");
         (world.rank() == 1 ? world : all).all_reduce(some());
       },
       {"deadlock", "rank 1 in all_reduce (call 1 of 'world') for ranks 0, 2",
        "rank 0 in all_reduce (call 0 of 'data') for rank 1"}},
      {"groups are called in another order",
       [](Communicator& world) {
         const Communicator a = world.split(0, 0, "a"), b = world.split(0, 0, "b");
         (world.rank() == 1 ? b : a).barrier();
         (world.rank() == 1 ? a : b).barrier();
       },
       {"deadlock", "rank 0 in barrier (call 0 of 'a') for rank 1",
        "rank 1 in barrier (call 0 of 'b')"}},
      {"a message is never received",
       [](Communicator& world) {
         if (world.rank() != 1) world.send(some(), 1, {.unit = "edge"});
       },
       {"send (call 0 of 'world', unit 'edge')", "rank 1 has finished without this call"},
       1},
      {"a message is never sent",
       [](Communicator& world) {
         if (world.rank() != 1) world.recv(some(), 1);
       },
       {"recv (call 0 of 'world')", "rank 1 has finished without this call"},
       1},
      {"two ranks send to each other first",
       [](Communicator& world) {
         if (world.rank() < 2) world.send(some(), 1 - world.rank());
         world.barrier();
       },
       {"deadlock", "rank 0 in send (call 0 of 'world') for rank 1", "rank 2 in barrier"}},
      {"ranks receive in a ring",
       [](Communicator& world) { world.recv(some(), (world.rank() + 1) % 3); },
       {"deadlock", "rank 2 in recv (call 0 of 'world') for rank 0"}},
      {"a call that nobody waits for is not joined",
       odd_one([](Communicator& world) { world.all_reduce(some(), {.async = true}); },
               [](Communicator&) {}),
       {"all_reduce (call 0 of 'world')", "rank 1 has finished without this call"},
       -3},  // seen at the end of ranks 0 and 2, or when the later of them begins its call
  };
  return bugs;
}

inline const std::vector<Bug>& wrong_arguments() {
  const auto only = [](RankProgram odd) {
    return odd_one([](Communicator& world) { world.barrier(); }, std::move(odd));
  };
  static const std::vector<Bug> bugs = {
      {"an undefined array",
       only([](Communicator& world) { world.all_reduce(Array()); }),
       {"all_reduce: the array is undefined"}},
      {"a meta array",
       only([](Communicator& world) { world.all_reduce(Array::zeros({2}, kFloat32, kMeta)); }),
       {"all_reduce: the array is on meta"}},
      {"a transposed array",
       only([](Communicator& world) {
         world.broadcast(Array::zeros({2, 3}).t(), 0);
       }),
       {"broadcast: the array is not contiguous: [3, 2] with strides [1, 3]"}},
      {"a root behind the last rank",
       only([](Communicator& world) { world.broadcast(some(), 3); }),
       {"broadcast: root is not a rank of 'world': 3; ranks are 0 to 2"}},
      {"a negative root",
       only([](Communicator& world) { world.reduce(some(), -1); }),
       {"reduce: root is not a rank of 'world': -1"}},
      {"a receiver that does not exist",
       only([](Communicator& world) { world.send(some(), 9); }),
       {"send: the receiver is not a rank of 'world': 9"}},
      {"a message to itself",
       only([](Communicator& world) { world.send(some(), 1); }),
       {"send: to itself, rank 1"}},
      {"too few counts",
       only([](Communicator& world) {
         world.all_gather(some(4), some(2), {.counts = {2, 2}});
       }),
       {"all_gather: 2 counts for 3 ranks: [2, 2]"}},
      {"a negative count",
       only([](Communicator& world) {
         world.all_gather(some(2), some(2), {.counts = {2, 2, -2}});
       }),
       {"all_gather: a negative count: [2, 2, -2]"}},
      {"counts that do not fit the input",
       only([](Communicator& world) {
         world.reduce_scatter(some(2), some(5), {.counts = {2, 2, 2}});
       }),
       {"reduce_scatter: the input has 5 elements, the counts say 6"}},
      {"counts for an operation without parts",
       only([](Communicator& world) {
         world.all_reduce(some(6), {.counts = {2, 2, 2}});
       }),
       {"all_reduce: has no parts to count"}},
      {"an output of the wrong size",
       only([](Communicator& world) { world.all_gather(some(5), some(2)); }),
       {"all_gather: the output has 5 elements, the inputs together 6"}},
      {"parts that are not even",
       only([](Communicator& world) { world.reduce_scatter(some(1), some(4)); }),
       {"reduce_scatter: 4 elements are not even parts for 3 ranks"}},
      {"an exchange that is not even",
       only([](Communicator& world) { world.all_to_all(some(4), some(4)); }),
       {"all_to_all: the input's 4 elements are not even parts for 3 ranks"}},
      {"output and input overlap",
       only([](Communicator& world) {
         const Array x = some(6);
         world.all_gather(x, x.slice(0, 1, 3));
       }),
       {"all_gather: output and input overlap"}},
      {"input and output of two dtypes",
       only([](Communicator& world) { world.all_gather(some(6), some(2, kBFloat16)); }),
       {"all_gather: dtypes differ: output float32, input bfloat16"}},
      {"a mean of integers",
       only([](Communicator& world) { world.all_reduce(some(4, kInt64), {.op = ReduceOp::mean}); }),
       {"all_reduce: mean of int64 is not exact"}},
      {"a reduction that is none",
       only([](Communicator& world) { world.broadcast(some(), 0, {.op = ReduceOp::max}); }),
       {"broadcast: does not reduce: max"}},
      {"a mesh of the wrong size",
       only([](Communicator& world) {
         const Mesh mesh(world, {{"a", 2}, {"b", 2}});
       }),
       {"rank 1 says mesh of a 2, b 2"}},
      {"a group without oneself",
       only([](Communicator& world) {
         world.group(std::vector<int>{0, 2});
       }),
       {"group: rank 1 is not in its own list"}},
      {"a rank named twice",
       only([](Communicator& world) {
         world.group(std::vector<int>{1, 1});
       }),
       {"group: rank 1 is named twice"}},
      {"members name different groups",
       [](Communicator& world) {
         const std::vector<int> list =
             world.rank() == 1 ? std::vector<int>{1, 2} : std::vector<int>{0, 1, 2};
         world.group(list, "half").barrier();
       },
       {"name different members for 'half'"}},
      {"an undefined communicator",
       only([](Communicator&) { Communicator().barrier(); }),
       {"communicator: undefined"}},
  };
  return bugs;
}

}  // namespace hero::test
