// 0/1 Adam against one process that does what N workers do, to the bit.
#include "dist/compress/zero_one_adam.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

TEST_CASE("one_bit: 0/1 Adam has the bits of one process that simulates its workers") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const int steps = 19;
    const ZeroOneRun expected = simulate_zero_one_adam(ranks, steps);
    CHECK(expected.kinds == "vvbvbvblmlmllmllllmllllm");
    run_ranks(ranks, [&](Communicator& world) {
      std::string kinds;
      train_zero_one_adam(
          world, steps, [&](int step, const std::string& kind, const Floats& got, int64_t sent) {
            kinds += kind;
            const std::string off = unlike(
                got, expected.after[static_cast<size_t>(step)][static_cast<size_t>(world.rank())]);
            expect(off.empty(), "step ", step, " on rank ", world.rank(), ": ", off);
            const int64_t bits =
                OneBitSimulation(static_cast<size_t>(ranks), got.size(), 128).bytes();
            if (kind == "b") expect(sent == bits + 8 * (ranks - 1), "bits");
            if (kind == "l") expect(sent == 0, "local: ", sent);
            if (kind == "lm") expect(sent == bits, "exchanged: ", sent);
          });
      expect(kinds == expected.kinds, kinds);
    });
  }
}

namespace {

struct Partly : nn::Module {
  nn::Linear& used = add<nn::Linear>("used", 5, 3);
  std::vector<nn::Linear*> unused;
  Partly() {
    for (int i = 0; i < 12; ++i) {
      unused.push_back(&add<nn::Linear>("unused" + std::to_string(i), 5, 3));
    }
  }
  Tensor forward(const Tensor& x) override { return used(x); }
};

}  // namespace

TEST_CASE("one_bit: 0/1 Adam takes what has no gradient as if it were zero") {
  run_ranks(4, [](Communicator& world) {
    manual_seed(4);
    Partly model;
    const DDP ddp(model, world, {.find_unused_parameters = true});
    ZeroOneAdam adam(ddp, model.parameters(), {.lr = 0.1, .var_update_scaler = 1});
    const Array before = model.unused[5]->weight.array().clone();
    const Array bias = model.unused[11]->bias.array().clone();
    for (int step = 0; step < 9; ++step) {
      const auto seed = static_cast<uint64_t>(4 * step + world.rank());
      square(model(Tensor(noise({4, 5}, kFloat32, seed)))).sum().backward();
      adam.step();
      adam.zero_grad();
      expect(same(model.unused[5]->weight.array(), before), "stays in step ", step);
      expect(same(model.unused[11]->bias.array(), bias), "stays in step ", step);
    }
  });
}

TEST_CASE("one_bit: 0/1 Adam is saved where its ranks are the same, and resumes bit for bit") {
  const hero_test::TempDir dir;
  std::vector<Floats> expected(2), got(2);
  const auto run_of = [&](Communicator& world) {
    return TrackedBits<ZeroOneAdam>(world, kZeroOneAdam, dir / "run");
  };
  run_ranks(2, [&](Communicator& world) {
    auto run = run_of(world);
    run.train(0, 5);
    run.checkpoint.save(5);
    run.train(5, 10);  // in the middle of two local steps
    const std::string error = error_of([&] { run.checkpoint.save(10); });
    expect(error.find("zero_one_adam: ranks have made 1 of 2 local steps") != std::string::npos,
           error);
    run.train(10, 11);
    expect(run.optimizer.synchronized(), "after the second");
    run.checkpoint.save(11);
    run.train(11, 12);
    run.optimizer.synchronize();  // before its time
    expect(run.optimizer.synchronized(), "made the same");
    run.train(12, 16);
    run.end(expected);
  });
  for (const int from : {5, 11}) {
    run_ranks(2, [&](Communicator& world) {
      auto run = run_of(world);
      run.checkpoint.load(from);
      run.train(from, 12);
      run.optimizer.synchronize();
      run.train(12, 16);
      run.end(got);
    });
    for (size_t rank = 0; rank < 2; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
  }
}
