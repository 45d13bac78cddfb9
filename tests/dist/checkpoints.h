#pragma once
// Training that stops at a checkpoint under one strategy and goes on from it on another.
#include <functional>
#include <optional>
#include <string>

#include "dist/data_parallel/strategies.h"

#include <hero/dist/checkpoint.h>

namespace hero::test {

/// Where a run takes place. A single process takes as many micro-batches a step as it says ranks.
struct Stand {
  ShardingStrategy strategy = ShardingStrategy::single;
  int ranks = 1;
};
inline std::string name(const Stand& s) { return name(s.strategy) + std::to_string(s.ranks); }

struct Job {
  Subject subject = Subject::mlp;
  Method method = Method::sgd;
};

/// One rank's share of a run.
struct Runner {
  const dist::Communicator& world;  ///< undefined in a single process
  Stand stand;
  Job job;
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;

  Runner(const dist::Communicator& w, const Stand& s, const Job& j)
      : world(w), stand(s), job(j), model(make_subject(j.subject)) {
    if (stand.strategy != ShardingStrategy::single)
      climb(stand.strategy, job.subject, *model, world);
    optimizer = make_method(job.method, model->parameters());
  }
  dist::Checkpointer checkpointer(const std::string& run) {
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", *optimizer);
    return checkpoint;
  }
  void step(int number) {
    if (stand.strategy != ShardingStrategy::single) {
      subject_loss(job.subject, *model, number, world.rank()).backward();
    } else {
      optim::Accumulator gradients(model->parameters());
      for (int r = 0; r < stand.ranks; ++r) {
        subject_loss(job.subject, *model, number, r).backward();
        gradients.add();
      }
      gradients.mean();
    }
    optimizer->step();
    optimizer->zero_grad();
  }
  /// Other values than a fresh run has, so that what is loaded is seen to be loaded.
  void spoil() {
    const NoGrad no_grad;
    for (const Tensor& p : model->parameters()) p.fill_(0.125);
  }
};

/// Calls body with every rank's runner.
inline void on_ranks(const Stand& stand, const Job& job, const std::function<void(Runner&)>& body) {
  if (stand.strategy == ShardingStrategy::single) {
    const dist::Communicator alone;
    Runner runner(alone, stand, job);
    return body(runner);
  }
  dist::run_ranks(stand.ranks, [&](dist::Communicator& world) {
    Runner runner(world, stand, job);
    body(runner);
  });
}

inline constexpr int kStepsBefore = 3, kStepsAfter = 5;

/// Trains and saves; `at_save` gets the state that was saved.
inline void train_and_save(const Stand& stand, const Job& job, const std::string& run,
                           Whole& at_save) {
  on_ranks(stand, job, [&](Runner& runner) {
    for (int i = 0; i < kStepsBefore; ++i) runner.step(i);
    runner.checkpointer(run).save(kStepsBefore);
    add_state(at_save, *runner.model, *runner.optimizer);
  });
}

/// Loads and trains on.
inline void load_and_train(const Stand& stand, const Job& job, const std::string& run,
                           Whole& loaded, Whole& at_end) {
  on_ranks(stand, job, [&](Runner& runner) {
    runner.spoil();
    const auto step = runner.checkpointer(run).resume();
    expect(step == kStepsBefore, "a checkpoint of step ", kStepsBefore);
    add_state(loaded, *runner.model, *runner.optimizer);
    for (int i = 0; i < kStepsAfter; ++i) runner.step(kStepsBefore + i);
    add_state(at_end, *runner.model, *runner.optimizer);
  });
}

}  // namespace hero::test
