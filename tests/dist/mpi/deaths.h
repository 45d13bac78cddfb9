#pragma once
// A training program whose every attempt dies as planned, for the tests of restarts.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "dist/mpi/go_wrong.h"
#include <unistd.h>

#include <hero/dist/checkpoint.h>

namespace hero::test {

/// How an attempt ends: "KIND RANK EVENT MICROSECONDS".
struct Death {
  std::string kind;      ///< "" lives
  int rank = 0;          ///< which one's, counted round; of threads all die with one
  int event = 0;         ///< of the attempt: each step, and each save before and after, is one
  int microseconds = 0;  ///< after the event
};

/// The plan of the attempt with that number: HERO_DEATHS has them in turn, separated by ';'.
inline Death death_of(int64_t attempt) {
  const char* const text = std::getenv("HERO_DEATHS");
  std::istringstream plans(text == nullptr ? "" : text);
  Death death;
  std::string plan;
  for (int64_t i = 0; i <= attempt; ++i) {
    if (!std::getline(plans, plan, ';')) return {};
  }
  std::istringstream(plan) >> death.kind >> death.rank >> death.event >> death.microseconds;
  return death;
}

/// Counts the events of a rank, and dies with the one of the plan.
class Fate {
 public:
  Fate(const dist::Communicator& world, const Death& death) : world_(world), death_(death) {
    mine_ = !death.kind.empty() && (death.kind == "all" || death.kind == "endless" ||
                                    world.rank() == death.rank % world.size());
  }
  void event() {
    if (!mine_ || ++events_ != death_.event) return;
    if (death_.microseconds == 0) return die();
    std::thread([this] {
      std::this_thread::sleep_for(std::chrono::microseconds(death_.microseconds));
      die();
    }).detach();
  }
  /// At the end of a run: who is to die is waited for.
  void meet() const {
    if (mine_) forever();
  }

 private:
  void die() const {
    const std::string& how = death_.kind;
    if (how == "kill" || how == "all") ::kill(::getpid(), SIGKILL);
    if (how == "segv") ::raise(SIGSEGV);
    if (how == "mpirun") ::kill(::getppid(), SIGKILL);
    if (how == "throw") fail("loader: no such file: 'train.bin'");
    if (how == "exit2") ::_exit(2);
    if (how == "endless" && world_.rank() == 0) fail("loader: no such file: 'train.bin'");
    if (how == "orphan") leave_orphan();
    say_of_rank(world_, "waits");
    forever();
  }

  // A process that hides in a session of its own.
  static void leave_orphan() {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      ::execlp("sleep", "hero_orphan", "1000", static_cast<char*>(nullptr));
      ::_exit(1);
    }
    std::ofstream(std::string(std::getenv("HERO_RUN")) + "/orphan") << child << std::flush;
    ::kill(::getpid(), SIGKILL);
  }

  const dist::Communicator& world_;
  Death death_;
  bool mine_ = false;
  int events_ = 0;
};

/// The number of this attempt: each leaves its number of ranks, a digit, in a file of the run.
/// (What is printed may be lost with mpirun.)
inline int64_t count_attempt(const dist::Communicator& world, const std::string& run) {
  const Array number = Array::zeros({1}, kInt64);
  if (world.rank() == 0) {
    std::ofstream file(run + "/attempts", std::ios::app | std::ios::ate);
    *number.data<int64_t>() = static_cast<int64_t>(file.tellp());
    file << world.size();
  }
  world.broadcast(number, 0);
  return number.data<int64_t>()[0];
}

/// Trains in the folder HERO_RUN for HERO_STEPS: four micro-batches a step, of which the ranks take
/// turns, a checkpoint every two steps, with HERO_ASYNC in the background, and `model.safetensors`
/// at the end.
inline void train_and_die(dist::Communicator& world) {
  const std::string run = std::getenv("HERO_RUN");
  const int steps = std::atoi(std::getenv("HERO_STEPS"));
  const int64_t attempt = count_attempt(world, run);
  Fate fate(world, death_of(attempt));
  const auto model = make_subject(Subject::mlp);
  climb(ShardingStrategy::fsdp, Subject::mlp, *model, world);
  const auto adamw = make_method(Method::adamw, model->parameters());
  dist::Checkpointer checkpoint(run, world, {.keep = 2});
  checkpoint.track("model", *model);
  checkpoint.track("optimizer", *adamw);
  auto step = static_cast<int>(checkpoint.resume().value_or(0));
  world.out() << "attempt " << attempt + 1 << " on " << world.size() << " from step " << step
              << std::endl;
  optim::Accumulator gradients(model->parameters());
  while (step < steps) {
    fate.event();
    for (int i = world.rank(); i < 4; i += world.size()) {
      subject_loss(Subject::mlp, *model, step, i).backward();
      gradients.add();
    }
    gradients.mean();
    finish_step(*model, *adamw, 0.5);
    if (++step % 2 != 0) continue;
    fate.event();
    checkpoint.save(step, {.async = std::getenv("HERO_ASYNC") != nullptr});
    fate.event();
  }
  fate.meet();
  world.barrier();
  save_full(run + "/model.safetensors", world, *model);
}

}  // namespace hero::test
