// Simulated ranks run one after the other: what they tell of each other's calls all the same.
#include <array>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

const std::vector<int> kUpwards = {0, 1, 2, 3}, kDownwards = {3, 2, 1, 0};

Array planned(int64_t n, DType dtype = kFloat32) { return Array::empty({n}, dtype, kMeta); }

// A program for two of four ranks; the others do nothing.
RankProgram between(int from, int to, const std::function<void(Communicator&)>& sender,
                    const std::function<void(Communicator&)>& receiver) {
  return [=](Communicator& world) {
    if (world.rank() == from) sender(world);
    if (world.rank() == to) receiver(world);
  };
}

void check_refused(const RankProgram& program, const std::vector<std::string>& words) {
  for (const std::vector<int>& order : {kUpwards, kDownwards}) {
    const std::string error = error_of([&] { simulate_ranks(4, program, order); });
    CAPTURE(order);
    for (const std::string& word : words) CHECK_THAT(error, ContainsSubstring(word));
  }
}

}  // namespace

TEST_CASE("messages of simulated ranks meet in both orders of ranks") {
  const RankProgram program = between(
      1, 3,
      [](Communicator& world) {
        world.send(planned(5), 3);
        world.send(planned(7, kBFloat16), 3, {.unit = "second"});
        world.recv(planned(2), 3);
      },
      [](Communicator& world) {
        world.recv(planned(5), 1);
        world.recv(planned(7, kBFloat16), 1, {.unit = "second"});
        world.send(planned(2), 1);
        expect(world.traffic().bytes() == 8, "what it sent");
      });
  CHECK_NOTHROW(simulate_ranks(4, program, kUpwards));
  CHECK_NOTHROW(simulate_ranks(4, program, kDownwards));
}

TEST_CASE("messages of simulated ranks that differ are errors in both orders of ranks") {
  check_refused(
      between(
          0, 2, [](Communicator& world) { world.send(planned(5), 2, {.unit = "h"}); },
          [](Communicator& world) { world.recv(planned(6), 0, {.unit = "h"}); }),
      {"send (call 0 of 'world', unit 'h'): ranks disagree on the size",
       "rank 0 says 5 elements; rank 2 says 6 elements", "every rank must make the same calls"});
  check_refused(between(
                    0, 2, [](Communicator& world) { world.send(planned(5), 2); },
                    [](Communicator& world) { world.recv(planned(5, kFloat64), 0); }),
                {"ranks disagree on the dtype: rank 0 says float32; rank 2 says float64"});
  check_refused(between(
                    0, 2, [](Communicator& world) { world.send(planned(5), 2, {.unit = "a"}); },
                    [](Communicator& world) { world.recv(planned(5), 0, {.unit = "b"}); }),
                {"ranks disagree on the unit: rank 0 says 'a'; rank 2 says 'b'"});
  const auto two = [](int64_t a, int64_t b, bool sends) {
    return [=](Communicator& world) {
      for (const int64_t n : {a, b}) {
        sends ? world.send(planned(n), 1) : world.recv(planned(n), 0);
      }
    };
  };
  check_refused(between(0, 1, two(5, 6, true), two(5, 7, false)),
                {"send (call 1 of 'world')", "rank 0 says 6 elements; rank 1 says 7 elements"});
}

TEST_CASE("a message of a simulated rank that nobody meets is an error that names both ranks") {
  const auto nothing = [](Communicator&) {};
  check_refused(between(
                    0, 2, [](Communicator& world) { world.send(planned(5), 2); }, nothing),
                {"send (call 0 of 'world') of rank 0: rank 2 has finished without this call"});
  check_refused(between(0, 2, nothing, [](Communicator& world) { world.recv(planned(5), 0); }),
                {"recv (call 0 of 'world') of rank 2: rank 0 has finished without this call"});
  check_refused(between(
                    0, 2,
                    [](Communicator& world) {
                      for (int i = 0; i < 2; ++i) world.send(planned(5), 2, {.unit = "h"});
                    },
                    [](Communicator& world) { world.recv(planned(5), 0, {.unit = "h"}); }),
                {"send (call 1 of 'world', unit 'h') of rank 0: rank 2 has finished without"});
  // both send and nobody receives; a rank's own message
  check_refused(between(
                    0, 2, [](Communicator& world) { world.send(planned(5), 2); },
                    [](Communicator& world) { world.send(planned(5), 0); }),
                {"has finished without this call"});
  check_refused(
      between(
          1, 1, [](Communicator& world) { world.send(planned(5), 1, {.async = true}); }, nothing),
      {"of rank 1: rank 1 has finished without this call"});
}

TEST_CASE("a message to a rank that is not simulated is nobody's error") {
  const RankProgram program = [](Communicator& world) {
    world.send(planned(5), (world.rank() + 1) % 4);
  };
  CHECK_NOTHROW(simulate_ranks(4, program, {1}));
  const RankProgram own = [](Communicator& world) {
    const Work sent = world.send(planned(5), 0, {.async = true});
    world.recv(planned(5), 0);
  };
  CHECK_NOTHROW(simulate_ranks(1, own));
}

TEST_CASE("a pipeline of four simulated ranks is compared stage by stage") {
  // Micro-batches go down the stages and gradients up, over the pipe axis of a mesh.
  const auto pipeline = [](int batches, int64_t odd_gradient) {
    return [=](Communicator& world) {
      const Mesh mesh(world, {{"data", 2}, {"pipe", 4}});
      const Communicator& pipe = mesh["pipe"];
      const int stage = pipe.rank();
      const bool first = stage == 0, last = stage == 3;
      for (int m = 0; m < batches; ++m) {
        const std::string unit = "batch " + std::to_string(m);
        if (!first) pipe.recv(planned(64), stage - 1, {.unit = unit});
        if (!last) pipe.send(planned(64), stage + 1, {.unit = unit});
      }
      for (int m = 0; m < batches; ++m) {
        const int64_t n = stage == 2 && m == 1 ? odd_gradient : 64;
        if (!last) pipe.recv(planned(64), stage + 1);
        if (!first) pipe.send(planned(n), stage - 1);
      }
      mesh["data"].all_reduce(planned(100));
    };
  };
  CHECK_NOTHROW(simulate_ranks(8, pipeline(3, 64)));
  CHECK_NOTHROW(simulate_ranks(8, pipeline(3, 64), {7, 2, 5, 0, 1, 6, 3, 4}));
  CHECK_THROWS_WITH(simulate_ranks(8, pipeline(3, 65)),
                    ContainsSubstring("send (call 1 of 'pipe'): ranks disagree on the size: rank 2 "
                                      "says 65 elements; rank 1 says 64 elements"));
}

TEST_CASE("collectives that a simulated rank leaves out are told in the words of real ranks") {
  const RankProgram program = [](Communicator& world) {
    if (world.rank() != 2) world.all_reduce(planned(4), {.unit = "fc1"});
  };
  check_refused(program, {"all_reduce (call 0 of 'world', unit 'fc1') of rank ",
                          ": rank 2 has finished without this call"});
  CHECK_THROWS_WITH(simulate_ranks(4, program, {2, 0}),
                    ContainsSubstring("of rank 0: rank 2 has finished without this call"));
}

namespace {

// Rank i sends rank j i + 2 j elements; what it expects may be wrong between two of them.
void exchange(Communicator& world, int wrong_from, int wrong_to) {
  std::vector<int64_t> sends, recvs;
  for (int i = 0; i < world.size(); ++i) {
    sends.push_back(world.rank() + 2 * i);
    const bool wrong = i == wrong_from && world.rank() == wrong_to;
    recvs.push_back(i + 2 * world.rank() + (wrong ? 1 : 0));
  }
  const ChunkCounts send(sends), recv(recvs);
  world.all_to_all(planned(recv.total()), planned(send.total()),
                   {.unit = "experts", .send_counts = send, .recv_counts = recv});
}

}  // namespace

TEST_CASE("the counts of an all_to_all are compared from rank to rank") {
  for (const std::vector<int>& order : {kUpwards, kDownwards, {1, 3}}) {
    CHECK_NOTHROW(simulate_ranks(
        4, [](Communicator& world) { exchange(world, -1, -1); }, order));
  }
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      CAPTURE(from, to);
      const std::string sent = std::to_string(from + 2 * to);
      check_refused([=](Communicator& world) { exchange(world, from, to); },
                    {"all_to_all (call 0 of 'world', unit 'experts'): ranks disagree on the "
                     "counts: rank " +
                     std::to_string(from) + " sends " + sent + " elements to rank " +
                     std::to_string(to) + ", which expects " + std::to_string(from + 2 * to + 1)});
    }
  }
}

TEST_CASE("small arrays on the cpu act on simulated ranks as if all ranks had said the same") {
  simulate_ranks(3, [](Communicator& world) {
    const auto said = [](const std::vector<float>& values) {
      return Array::from(values, {static_cast<int64_t>(values.size())});
    };
    const auto reduced = [&](ReduceOp op) {
      const Array x = said({2.0f, -3.0f});
      world.all_reduce(x, {.op = op});
      return x.to_vector<float>();
    };
    using Floats = std::vector<float>;
    expect(reduced(ReduceOp::sum) == Floats{6.0f, -9.0f}, "a sum is three times it");
    expect(reduced(ReduceOp::product) == Floats{8.0f, -27.0f}, "a product its third power");
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::mean}) {
      expect(reduced(op) == Floats{2.0f, -3.0f}, name(op), " is itself");
    }
    const Array x = said({1.0f, 2.0f, 3.0f}), three = said({0.0f, 0.0f, 0.0f});
    const Array one = said({0.0f}), nine = Array::zeros({9});
    world.broadcast(x, 1);
    expect(x.to_vector<float>() == Floats{1.0f, 2.0f, 3.0f}, "the root says the same");
    world.all_gather(nine, x);
    expect(nine.to_vector<float>() == Floats{1, 2, 3, 1, 2, 3, 1, 2, 3}, "copies");
    world.reduce_scatter(one, x);
    expect(one.item<float>() == 3.0f * static_cast<float>(world.rank() + 1), "a part of the sum");
    world.all_to_all(three, x);
    const float mine = static_cast<float>(world.rank() + 1);
    expect(three.to_vector<float>() == Floats{mine, mine, mine}, "everyone's part for this rank");
    world.gather(world.rank() == 0 ? nine : Array(), x, 0);
    const Array flags = Array::from(std::vector<int64_t>{1, 0}, {2});
    world.all_reduce(flags, {.op = ReduceOp::max});
    expect(flags.to_vector<int64_t>() == std::vector<int64_t>{1, 0}, "flags");
    world.all_reduce(Array::zeros({0}));
    expect(world.traffic().calls(Collective::all_reduce) == 7, "they are counted as others are");
  });
}

TEST_CASE("what simulated ranks cannot know of arrays on the cpu is an error") {
  const auto refused = [](const RankProgram& program) {
    return error_of([&] { simulate_ranks(4, program); });
  };
  const std::string meta = "simulated ranks have no values: make it on meta";
  const auto send = [](Communicator& world) { world.send(Array::zeros({2}), 1); };
  CHECK_THAT(refused(send),
             ContainsSubstring("send: the array is on cpu") && ContainsSubstring(meta));
  const auto large = [](Communicator& world) { world.all_reduce(Array::zeros({1 << 20})); };
  CHECK_THAT(refused(large), ContainsSubstring("all_reduce: the array is on cpu and has 4194304") &&
                                 ContainsSubstring(meta));
  const auto uneven = [](Communicator& world) {
    const ChunkCounts counts = {1, 2, 3, 4};
    world.all_gather(Array::zeros({10}), Array::zeros({counts.count(world.rank())}),
                     {.counts = counts});
  };
  CHECK_THAT(refused(uneven),
             ContainsSubstring("all_gather: parts of different sizes") && ContainsSubstring(meta));
  const auto scatter = [](Communicator& world) {
    world.scatter(Array::zeros({1}), world.rank() == 0 ? Array::zeros({4}) : Array(), 0);
  };
  CHECK_THAT(refused(scatter),
             ContainsSubstring("rank 1 cannot know the root's array") && ContainsSubstring(meta));
  const auto mixed = [](Communicator& world) {
    world.all_reduce(Array::zeros({4}, kFloat32, world.rank() == 3 ? kMeta : kCpu));
  };
  CHECK_THAT(refused(mixed), ContainsSubstring("ranks disagree on the device"));
}

TEST_CASE("simulated ranks have nothing to save and nothing to load") {
  const hero_test::TempDir dir;
  const auto refused = [&](const std::function<void(Communicator&, nn::Module&)>& body) {
    return error_of([&] {
      simulate_ranks(2, [&](Communicator& world) {
        const nn::DeviceScope meta(kMeta);
        nn::Linear model(4, 4);
        const DataParallel fsdp = fully_shard(model, world);
        body(world, model);
      });
    });
  };
  const std::string error = "checkpoint: simulated ranks have no values to save or load";
  CHECK(refused([&](Communicator& world, nn::Module& model) {
          save_full(dir / "model.safetensors", world, model);
        }) == error);
  CHECK(refused([&](Communicator& world, nn::Module& model) {
          load_full(dir / "model.safetensors", world, model);
        }) == error);
  for (const bool saves : {true, false}) {
    CHECK(refused([&](Communicator& world, nn::Module& model) {
            Checkpointer checkpoint(dir / "run", world);
            checkpoint.track("model", model);
            saves ? checkpoint.save(1) : static_cast<void>(checkpoint.resume());
          }) == error);
  }
}

TEST_CASE("simulated ranks go through an uneven loop and through unused parameters") {
  simulate_ranks(4, [](Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world, {.find_unused_parameters = true});
    auto optimizer = make_method(Method::adamw, model->parameters());
    int steps = 0;
    const auto step = [&] {
      finish_step(*model, *optimizer, 1.0);
      ++steps;
    };
    ddp.join(
        [&] {
          for (int i = 0; i < 2; ++i) {
            subject_loss(Subject::mlp, *model, i, world.rank()).backward();
            step();
          }
        },
        step);
    expect(steps == 2, "all ranks have as many batches: ", steps);
  });
}

namespace {

// A rank's peaks: of every tag and of all together.
using Peaks = std::array<int64_t, kMemoryTagCount + 1>;

// From the construction of a GPT through two steps. DDP leaves parameters as they were made, so a
// real rank makes them where it computes; the other strategies cut what was made on meta.
Peaks peaks_of(ShardingStrategy strategy, Subject subject, const Communicator& world,
               DeviceType device) {
  const bool simulated = device == DeviceType::meta;
  const auto make = [&] {
    const nn::DeviceScope scope(simulated || strategy != ShardingStrategy::ddp ? kMeta : kCpu);
    return make_subject(subject);
  };
  const auto model = make();
  climb(strategy, subject, *model, world);
  const auto optimizer = make_method(Method::adamw, model->parameters());
  train(subject, *model, *optimizer, world, 2, 1.0);
  const Ledger& ledger = current_ledger();
  Peaks peaks{};
  for (int tag = 0; tag < kMemoryTagCount; ++tag) {
    peaks[static_cast<size_t>(tag)] = ledger.peak(static_cast<MemoryTag>(tag), device);
  }
  peaks.back() = ledger.peak(device);
  return peaks;
}

}  // namespace

TEST_CASE("the peaks of a simulated rank are those of a real one from construction on") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
        ShardingStrategy::hybrid}) {
    for (const Subject subject : {Subject::gpt, Subject::gpt_untied}) {
      if (strategy == ShardingStrategy::ddp && subject == Subject::gpt)
        continue;  // its head is made, then tied
      std::array<Peaks, 4> real{}, simulated{};
      run_ranks(4, [&](Communicator& world) {
        real[static_cast<size_t>(world.rank())] =
            peaks_of(strategy, subject, world, DeviceType::cpu);
      });
      simulate_ranks(4, [&](Communicator& world) {
        simulated[static_cast<size_t>(world.rank())] =
            peaks_of(strategy, subject, world, DeviceType::meta);
      });
      for (size_t rank = 0; rank < 4; ++rank) {
        CAPTURE(name(strategy), static_cast<int>(subject), rank);
        CHECK(simulated[rank] == real[rank]);
      }
    }
  }
}

TEST_CASE("a module on meta is charged to nobody until ranks take it") {
  const auto parameters = [] {
    return current_ledger().live(MemoryTag::parameter, DeviceType::meta);
  };
  simulate_ranks(4, [&](Communicator& world) {
    const nn::DeviceScope meta(kMeta);
    nn::Linear whole(8, 4), cut(8, 4), half(8, 4);
    half.to(kBFloat16);
    expect(parameters() == 0, "a plan: ", parameters());
    expect(current_ledger().peak(DeviceType::meta) == 0, "it was never held");
    const DDP ddp(whole, world);
    expect(parameters() == 4 * 36, "all of it: ", parameters());
    const DataParallel fsdp = fully_shard(cut, world, {.ignored_parameters = {"bias"}});
    expect(parameters() == 4 * 36 + 4 * (8 + 4), "a shard and what was left whole: ", parameters());
    half.to(kFloat32);
    const DataParallel sharded = fully_shard(half, world);
    expect(parameters() == 4 * (36 + 12 + 16), "a shard of 36 and padding: ", parameters());
  });
}
