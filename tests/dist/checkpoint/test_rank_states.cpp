// What each rank has of its own goes through checkpoints: resumed bit for bit by as many ranks,
// begun anew by others.
#include "dist/compress/one_bit.h"
#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/ddp.h>
#include <hero/dist/ddp_comm_hooks.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

struct Training {
  const Communicator& world;
  std::unique_ptr<nn::Module> model = make_subject(Subject::mlp);
  DDP ddp{*model, world, {.bucket_bytes = 700, .first_bucket_bytes = 100}};
  OneBitAdam adam{ddp, model->parameters(), kOneBitAdam};

  void steps(int begin, int end) {
    for (int step = begin; step < end; ++step) {
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      adam.step();
      adam.zero_grad();
    }
  }
  Checkpointer checkpointer(const std::string& run) {
    Checkpointer checkpoint(run, world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", adam);
    return checkpoint;
  }
};

bool all_zero(const optim::StateDict& dict) {
  for (const auto& entry : dict) {
    for (const float value : entry.array.to_vector<float>()) {
      if (value != 0.0f) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("rank_states: 1-bit Adam resumes bit for bit, before and after its freeze") {
  const hero_test::TempDir dir;
  for (const int at : {2, 3, 6}) {
    for (const bool async : {false, true}) {
      CAPTURE(at, async);
      const std::string run = dir / ("at" + std::to_string(at) + (async ? "a" : "s"));
      std::vector<Floats> expected(3), got(3);
      run_ranks(3, [&](Communicator& world) {
        Training whole{world};
        Checkpointer checkpoint = whole.checkpointer(run);
        whole.steps(0, at);
        checkpoint.save(at, {.async = async});
        whole.steps(at, 9);
        checkpoint.wait();
        expected[static_cast<size_t>(world.rank())] = flat_of(whole.model->parameters());
      });
      run_ranks(3, [&](Communicator& world) {
        Training other{world};
        other.steps(0, 5);  // its own states and errors must go
        Checkpointer checkpoint = other.checkpointer(run);
        expect(checkpoint.resume() == at, "the step");
        other.steps(at, 9);
        got[static_cast<size_t>(world.rank())] = flat_of(other.model->parameters());
      });
      for (size_t rank = 0; rank < 3; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
    }
  }
}

TEST_CASE("rank_states: on another number of ranks errors begin at zero, and the rest goes on") {
  const hero_test::TempDir dir;
  const std::string run = dir / "run";
  Floats at_save;
  run_ranks(3, [&](Communicator& world) {
    Training training{world};
    Checkpointer checkpoint = training.checkpointer(run);
    training.steps(0, 6);
    expect(!all_zero(training.adam.rank_state_dict()), "there are errors");
    checkpoint.save(6);
    if (world.rank() == 0) at_save = flat_of(training.model->parameters());
  });
  hero_test::CapturedStderr captured;
  run_ranks(2, [&](Communicator& world) {
    Training training{world};
    training.steps(0, 5);
    Checkpointer checkpoint = training.checkpointer(run);
    checkpoint.resume();
    expect(unlike(flat_of(training.model->parameters()), at_save).empty(), "parameters");
    expect(all_zero(training.adam.rank_state_dict()), "errors begin at zero");
    expect(training.adam.frozen(), "it goes on in bits");
    training.steps(6, 8);
  });
  CHECK(
      captured.text() ==
      "checkpoint: what each rank has of optimizer begins anew: it was saved by 3 ranks, and these "
      "are 2\n");
}

TEST_CASE("rank_states: a hook's errors are saved beside a module") {
  const hero_test::TempDir dir;
  const auto train = [&](Communicator& world, int from, int save, int to,
                         std::vector<Floats>& ends) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world, {.bucket_bytes = 700, .first_bucket_bytes = 100});
    CodecHook hook({.codec = Codec::int4});
    PowerSGDHook power({.min_compression_rate = 0.5});
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    Checkpointer checkpoint(dir / "hook", world);
    checkpoint.track("model", *model);
    checkpoint.track("codec", hook);
    checkpoint.track("power", power);
    if (from > 0) checkpoint.resume();
    for (int step = from; step < to; ++step) {
      step % 2 == 0 ? ddp.register_comm_hook(hook) : ddp.register_comm_hook(power);
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      sgd.step();
      sgd.zero_grad();
      if (step + 1 == save) checkpoint.save(save);
    }
    ends[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
  };
  std::vector<Floats> expected(2), got(2);
  run_ranks(2, [&](Communicator& world) { train(world, 0, 5, 9, expected); });
  run_ranks(2, [&](Communicator& world) { train(world, 5, 0, 9, got); });
  for (size_t rank = 0; rank < 2; ++rank) CHECK(unlike(got[rank], expected[rank]).empty());
}
