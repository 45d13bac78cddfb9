// Ranks that share one GPU: the local backend moves what lies there by copies and sums on the
// device.
#include <thread>

#include "cuda/gpu.h"
#include "dist/backends/collective_checks.h"

#include <hero/core/accelerator.h>
#include <hero/core/device/backend.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("collectives of arrays on the GPU give the bits of their definitions") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [](Communicator& world) {
      const bool all = world.size() == 3;
      const std::vector<DType> some = {kFloat32, kBFloat16};
      check_all(world, all ? kDTypes : some, {0, all ? 37 : 5}, kGpu);
    });
  }
}

TEST_CASE("more contributions than one pass over the GPU's memory reads at a time") {
  HERO_NEEDS_GPU();
  run_ranks(7, [](Communicator& world) {
    for (const DType dtype : {kFloat32, kBFloat16, kInt64}) {
      check_reductions(world, ReduceOp::sum, Order::tree, dtype, 1031, kGpu);
      check_reductions(world, ReduceOp::mean, Order::tree, is_floating(dtype) ? dtype : kFloat64,
                       70, kGpu);
    }
  });
}

TEST_CASE("sums on the GPU are the trees and the loops of their definitions, at any place") {
  HERO_NEEDS_GPU();
  core::Exchange& exchange = core::accelerator("test", kGpu).exchange(kGpu.index);
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt32}) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 11, 16, 31, 33, 64}) {
      for (const bool tree : {true, false}) {
        for (const int64_t shift : {0, 1}) {  // where 16 bytes begin, and where they do not
          CAPTURE(dtype, ranks, tree, shift);
          const int64_t n = 133;
          const std::vector<Array> inputs = all_contributions(ranks, n, dtype);
          std::vector<Array> there;
          std::vector<const std::byte*> places;
          for (const Array& input : inputs) {
            there.push_back(Array::zeros({n + shift}, dtype, kGpu));
            const Array part = there.back().slice(0, shift, n + shift);
            core::backend(kGpu).run(core::call::Copy{input.to(kGpu), part});
            places.push_back(part.bytes());
          }
          std::vector<DType> results = {dtype};
          if (is_half(dtype)) results = {dtype, kFloat32};
          if (dtype == kFloat32) results = {dtype, kFloat16, kBFloat16};  // rounded once
          for (const DType result : results) {
            const Array output = Array::zeros({n}, result, kGpu);
            exchange.combine({core::Combine::sum, tree, dtype, result}, places, output.bytes(), n);
            std::vector<Array> wide;
            for (const Array& input : inputs) {
              wide.push_back(is_half(dtype) ? input.to(result) : input);
            }
            const Order order = tree ? Order::tree : Order::ranks;
            CHECK(same_values(output, reduced(ReduceOp::sum, wide, order).to(result)));
          }
        }
      }
    }
  }
}

TEST_CASE(
    "sums of more contributions than a launch takes have the bits of one tree, or of one loop") {
  HERO_NEEDS_GPU();
  core::Exchange& exchange = core::accelerator("test", kGpu).exchange(kGpu.index);
  for (const DType dtype : {kFloat32, kBFloat16, kInt64, kUInt8}) {
    for (const int ranks : {480, 481, 512, 513, 1000, 1024}) {
      const int64_t n = 21;  // two packs and a rest, or more of both
      const std::vector<Array> inputs = all_contributions(ranks, n, dtype);
      std::vector<Array> there;
      for (const Array& input : inputs) there.push_back(input.to(kGpu));
      for (const core::Combine op : {core::Combine::sum, core::Combine::mean, core::Combine::max}) {
        if (op == core::Combine::mean && !is_floating(dtype)) continue;
        for (const bool tree : {true, false}) {
          CAPTURE(dtype, ranks, static_cast<int>(op), tree);
          const Array output = there.back().clone();  // which may be one of the inputs
          std::vector<const std::byte*> places;
          for (const Array& one : there) places.push_back(one.bytes());
          places.back() = output.bytes();
          exchange.combine({op, tree, dtype, dtype}, places, output.bytes(), n);
          const ReduceOp how = op == core::Combine::sum    ? ReduceOp::sum
                               : op == core::Combine::mean ? ReduceOp::mean
                                                           : ReduceOp::max;
          CHECK(same_values(output, reduced(how, inputs, tree ? Order::tree : Order::ranks)));
        }
      }
    }
  }
}

TEST_CASE("messages between ranks on one GPU arrive in the order they were sent") {
  HERO_NEEDS_GPU();
  run_ranks(3, [](Communicator& world) {
    check_message_to_oneself(world, kGpu);
    const int next = (world.rank() + 1) % 3, before = (world.rank() + 2) % 3;
    std::vector<Work> sends;
    for (int i = 0; i < 3; ++i) {
      const Array x = Array::full({5}, 10 * world.rank() + i, kInt32, kGpu);
      sends.push_back(world.send(x, next, {.async = true}));
    }
    for (int i = 0; i < 3; ++i) {
      const Array x = Array::zeros({5}, kInt32, kGpu);
      world.recv(x, before);
      expect(same_values(x, Array::full({5}, 10 * before + i, kInt32)), "message ", i);
    }
    for (Work& work : sends) work.wait();
  });
}

TEST_CASE("groups of ranks on one GPU") {
  HERO_NEEDS_GPU();
  run_ranks(4, [](Communicator& world) {
    const Communicator half = world.split(world.rank() % 2, 0);
    const Array x = Array::full({9}, world.rank(), kFloat32, kGpu);
    Work work = half.all_reduce(x, {.async = true});
    while (!work.test()) std::this_thread::yield();
    expect(same_values(x, Array::full({9}, world.rank() % 2 == 0 ? 2.0 : 4.0)), "the group's sum");
  });
}

TEST_CASE("what a rank does to its GPU arrays after a call does not reach the others") {
  HERO_NEEDS_GPU();
  run_ranks(3, [](Communicator& world) {
    const Array mine = Array::empty({513}, kFloat32, kGpu);
    const Array all = Array::empty({3 * 513}, kFloat32, kGpu);
    for (int round = 0; round < 4; ++round) {
      core::backend(kGpu).run(
          core::call::Fill{mine, 10.0 * round + world.rank()});  // no wait in between
      world.all_gather(all, mine);
      core::backend(kGpu).run(core::call::Fill{mine, -1.0});
      for (int r = 0; r < 3; ++r) {
        expect(same_values(all.slice(0, 513 * r, 513 * (r + 1)).contiguous(),
                           Array::full({513}, 10.0 * round + r)),
               "rank ", r, "'s values of round ", round);
      }
    }
  });
}

TEST_CASE("what ranks did on the GPU is done for the one who ran them") {
  HERO_NEEDS_GPU();
  const Array x = Array::full({300}, 1.0, kFloat32, kGpu), y = Array::empty({300}, kFloat32, kGpu);
  run_ranks(2, [&](Communicator& world) {
    if (world.rank() == 0) core::backend(kGpu).run(core::call::Copy{x, y});
    world.barrier();
  });
  CHECK(same_values(y, Array::ones({300})));
}

TEST_CASE("ranks that disagree on where their arrays lie are told") {
  HERO_NEEDS_GPU();
  const std::vector<std::string> errors = errors_of(3, [](Communicator& world) {
    world.all_reduce(Array::zeros({4}, kFloat32, world.rank() == 1 ? kCpu : kGpu));
  });
  for (const std::string& error : errors) {
    CHECK(error ==
          "all_reduce (call 0 of 'world'): ranks disagree on the device: ranks 0, 2 say "
          "cuda:0; rank 1 says cpu; every rank must make the same calls in the same order");
  }
  run_ranks(1, [](Communicator& world) {
    const Array out = Array::zeros({4}, kFloat32, kGpu);
    try {
      world.all_gather(out, Array::zeros({4}));
      expect(false, "an error");
    } catch (const Error& error) {
      expect(std::string(error.what()) == "all_gather: devices differ: output cuda:0, input cpu",
             error.what());
    }
  });
}

TEST_CASE("ranks on a GPU that make different calls get the errors of ranks on the CPU") {
  HERO_NEEDS_GPU();
  const auto lines = [](Device device) {
    return errors_of(3, [device](Communicator& world) {
      const Array x = Array::zeros({world.rank() == 2 ? 5 : 4}, kFloat32, device);
      world.all_reduce(x, {.unit = "fc1"});
    });
  };
  const std::vector<std::string> on_gpu = lines(kGpu);
  CHECK_THAT(on_gpu[0], ContainsSubstring("unit 'fc1'") && ContainsSubstring("the size"));
  CHECK(on_gpu == lines(kCpu));
}
