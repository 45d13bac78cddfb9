// finite_backward() where a number that is not finite appears on one rank alone, and StopSignal
// where a signal comes to one: the ranks agree.
#include <chrono>
#include <csignal>
#include <thread>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/training/finite.h>
#include <hero/nn/training/stop.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr ShardingStrategy kAll[] = {ShardingStrategy::ddp,   ShardingStrategy::zero1,
                                     ShardingStrategy::zero2, ShardingStrategy::zero3,
                                     ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept,
                                     ShardingStrategy::hybrid};

// What each rank says where the loss of rank `bad` is that of `fault`.
template <class Loss>
std::vector<std::string> errors_with(ShardingStrategy strategy, int ranks, int bad, bool parameters,
                                     const Loss& fault) {
  return errors_of(ranks, [&](Communicator& world) {
    auto model = make_subject(Subject::mlp);
    climb(strategy, Subject::mlp, *model, world);
    const auto leaves = parameters ? model->parameters() : std::vector<Tensor>{};
    for (int64_t step = 6; step < 8; ++step) {
      nn::finite_backward(
          step,
          [&] {
            const Tensor y = (*model)(full({2, 7}, 0.5));
            return step == 7 && world.rank() == bad ? fault(y) : y.sum();
          },
          leaves);
      for (Tensor p : model->parameters()) p.set_grad({});
    }
  });
}

template <class Loss>
void check_named(bool parameters, const std::string& what, const std::string& op,
                 const Loss& fault) {
  for (const ShardingStrategy strategy : kAll) {
    for (const int ranks : {1, 2, 4}) {
      if (strategy == ShardingStrategy::hybrid && ranks == 1) continue;
      for (const int bad : {0, ranks - 1}) {
        CAPTURE(name(strategy), ranks, bad);
        const auto errors = errors_with(strategy, ranks, bad, parameters, fault);
        for (int rank = 0; rank < ranks; ++rank) {
          const std::string& error = errors[static_cast<size_t>(rank)];
          CHECK_THAT(error, ContainsSubstring("step 7: ") && ContainsSubstring(op));
          if (rank == bad) CHECK_THAT(error, ContainsSubstring("step 7: " + what));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("finite_backward names the operation that made a NaN on one rank, under every strategy") {
  check_named(false, "the loss is nan: sqrt", "sqrt",
              [](const Tensor& y) { return sqrt(y - 100.0).sum(); });
}

TEST_CASE("finite_backward names the operation of an infinite loss of one rank") {
  check_named(false, "the loss is infinite: exp", "exp",
              [](const Tensor& y) { return exp(y + 1000.0).sum(); });
}

TEST_CASE("finite_backward names the operation whose gradient is NaN on one rank") {
  check_named(true, "a gradient", "sqrt",
              [](const Tensor& y) { return (sqrt(y * 0.0) * (y * 0.0)).sum(); });
}

TEST_CASE("ranks agree to stop, by the signal that came to one of them") {
  for (const int ranks : {1, 2, 3}) {
    for (const bool own : {true, false}) {
      CAPTURE(ranks, own);
      nn::StopSignal shared;
      std::vector<int64_t> steps(static_cast<size_t>(ranks), 0), codes(steps);
      run_ranks(ranks, [&](Communicator& world) {
        std::optional<nn::StopSignal> mine;
        if (own) mine.emplace();
        nn::StopSignal& stop = own ? *mine : shared;
        const auto rank = static_cast<size_t>(world.rank());
        expect(!stop.requested(world), "no signal yet");
        for (int64_t step = 1; step <= 1000; ++step) {
          if (step == 3 && world.rank() == ranks - 1) std::raise(SIGTERM);
          if (!stop.requested(world)) continue;
          steps[rank] = step;
          codes[rank] = stop.exit_code();
          return;
        }
      });
      for (const int64_t step : steps) CHECK(step == 3);
      for (const int64_t code : codes) CHECK(code == 143);
    }
  }
}

namespace {

int train(dist::Communicator& world, const std::string& folder, int64_t steps) {
  nn::Linear model(3, 1);
  const dist::DDP ddp(model, world);
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  dist::Checkpointer checkpoint(folder, world);
  checkpoint.track("model", model);
  checkpoint.track("optimizer", sgd);
  int64_t step = checkpoint.resume(nn::Resume::newest).value_or(0);
  nn::StopSignal stop;
  while (step < steps) {
    sgd.zero_grad();
    model(ones({2, 3})).square().mean().backward();
    sgd.step();
    ++step;
    if (stop.requested(world)) {  // the same on all ranks
      checkpoint.save(step);
      return stop.exit_code();
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("ranks that stop by a signal save one checkpoint, and go on from it") {
  const hero_test::TempDir folder;
  const nn::StopSignal until_all_have_ended;
  std::vector<int> codes(2, -1);
  std::thread sends([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::raise(SIGINT);
  });
  run_ranks(2, [&](Communicator& world) {
    codes[static_cast<size_t>(world.rank())] = train(world, folder / "run", 1'000'000'000);
  });
  sends.join();
  CHECK(codes == std::vector<int>{130, 130});
}
