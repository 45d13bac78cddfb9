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

TEST_CASE("one_bit: 0/1 Adam is saved where its ranks are the same, and resumes bit for bit") {
  const hero_test::TempDir dir;
  std::vector<Floats> expected(2), got(2);
  const auto train = [](Communicator& world, ZeroOneAdam& adam, nn::Module& model, int from,
                        int to) {
    for (int step = from; step < to; ++step) {
      subject_loss(Subject::mlp, model, step, world.rank()).backward();
      adam.step();
      adam.zero_grad();
    }
  };
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    ZeroOneAdam adam(ddp, model->parameters(), kZeroOneAdam);
    Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", adam);
    train(world, adam, *model, 0, 5);
    checkpoint.save(5);
    train(world, adam, *model, 5, 10);  // in the middle of two local steps
    const std::string error = error_of([&] { checkpoint.save(10); });
    expect(error.find("zero_one_adam: ranks have made 1 of 2 local steps") != std::string::npos,
           error);
    train(world, adam, *model, 10, 11);
    expect(adam.synchronized(), "after the second");
    checkpoint.save(11);
    train(world, adam, *model, 11, 12);
    adam.synchronize();  // before its time
    expect(adam.synchronized(), "made the same");
    train(world, adam, *model, 12, 16);
    expected[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
  });
  for (const int from : {5, 11}) {
    run_ranks(2, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world);
      ZeroOneAdam adam(ddp, model->parameters(), kZeroOneAdam);
      Checkpointer checkpoint(dir / "run", world);
      checkpoint.track("model", *model);
      checkpoint.track("optimizer", adam);
      checkpoint.load(from);
      train(world, adam, *model, from, 12);
      adam.synchronize();
      train(world, adam, *model, 12, 16);
      got[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
    });
    for (size_t rank = 0; rank < 2; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
  }
}
