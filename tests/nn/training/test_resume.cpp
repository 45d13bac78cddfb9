// A training program that is killed and interrupted.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/metrics.h>
#include <hero/nn/training/stop.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using hero_test::Child, hero_test::slurp, hero_test::TempDir;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr const char* kProgram = "a training program for the tests of resuming to start";
constexpr int64_t kSteps = 60, kSaveEvery = 6;
// Reports of a whole run: one a step, and in each save one before, one for each of two objects, and
// one after.
constexpr int64_t kReports = kSteps + kSteps / kSaveEvery * 4;

// Two layers whose state says when it is asked for: a process can be killed in the middle of a
// save.
struct Network {
  Tensor w1 = (hero::randn({8, 16}) * 0.3).detach().requires_grad_();
  Tensor w2 = (hero::randn({16, 4}) * 0.3).detach().requires_grad_();

  Tensor operator()(const Tensor& x) const { return matmul(dropout(relu(matmul(x, w1)), 0.2), w2); }
  nn::Checkpointer::StateDict state_dict() const {
    Child::report();
    return {{"w1", w1.array()}, {"w2", w2.array()}};
  }
  void load_state_dict(const nn::Checkpointer::StateDict& dict) const {
    const hero::NoGrad no_grad;
    w1.copy_(Tensor(dict.at(0).array));
    w2.copy_(Tensor(dict.at(1).array));
  }
};

double train_step(const Network& network, optim::Adam& adam, hero::Generator& order) {
  std::vector<float> batch(64);
  hero::fill_normal(batch, order.next(), 0);
  const Tensor x(hero::Array::from(batch, {8, 8}));
  adam.zero_grad();
  const Tensor loss = square(network(x) - x.slice(1, 0, 4)).mean();
  loss.backward();
  adam.step();
  return loss.item();
}

// A run in a folder of that name saves in the background.
constexpr const char* kBackground = "background";

// Trains to the end, or until it is asked to stop; returns the exit code.
int train(const std::string& run) {
  const nn::SaveOptions how{.async = run.ends_with(kBackground)};
  hero::manual_seed(3);
  const Network network;
  optim::Adam adam({network.w1, network.w2}, {.lr = 0.01});
  optim::Schedule schedule(adam, optim::CosineAnnealingLR{.t_max = kSteps});
  hero::Generator order(11);
  nn::Checkpointer checkpoint(run, {.keep = 2});
  checkpoint.track("model", network);
  checkpoint.track("optimizer", adam);
  checkpoint.track("schedule", schedule);
  checkpoint.track("order", order);
  checkpoint.track(
      "again",
      [] {
        Child::report();
        return nn::Checkpointer::StateDict();
      },
      [](const auto&) {});
  int64_t step = checkpoint.resume().value_or(0);
  nn::MetricsWriter metrics(run, {.resumed_step = step, .now = [] { return 1.0; }});
  const nn::StopSignal stop;
  while (step < kSteps) {
    const double loss = train_step(network, adam, order);
    schedule.step();
    ++step;
    Child::report();
    metrics.write(step, {{"loss", loss}, {"lr", adam.lr()}});
    if (step % kSaveEvery == 0 || stop.requested()) {
      Child::report();
      checkpoint.save(step, how);
      Child::report();
    }
    if (stop.requested()) return stop.exit_code();
  }
  const std::vector<hero::core::NamedArray> last = {{"w1", network.w1.array()},
                                                    {"w2", network.w2.array()}};
  hero::core::save_safetensors(run + "/model.safetensors", last);
  return 0;
}

// Lets a child run to its end; returns its exit code.
int finish(const std::string& run) {
  Child child(kProgram, run);
  while (child.arrives()) child.go_on();
  return child.wait();
}

struct Result {
  std::string model, metrics;
  bool operator==(const Result&) const = default;
};
Result result(const std::string& run) {
  return {slurp(run + "/model.safetensors"), slurp(run + "/metrics.jsonl")};
}

// Of a run that nothing happened to.
const Result& undisturbed() {
  static const Result once = [] {
    const TempDir dir;
    REQUIRE(finish(dir / "run") == 0);
    return result(dir / "run");
  }();
  REQUIRE(!once.model.empty());
  return once;
}

// Ten lives are shorter than a whole run, so each of the ten is killed.
void kill_ten_times(const char* name, uint64_t seed) {
  const TempDir dir;
  const std::string run = dir / name;
  hero::Generator random(seed);
  std::vector<int64_t> reports(10), microseconds(10);
  hero::fill_randint(reports, random.next(), 0, 1, kReports / 10 + 1);
  hero::fill_randint(microseconds, random.next(), 0, 0, 3000);
  for (size_t life = 0; life < reports.size(); ++life) {
    Child child(kProgram, run);
    for (int64_t i = 0; i < reports[life]; ++i) {
      REQUIRE(child.arrives());
      child.go_on();
    }
    ::usleep(static_cast<useconds_t>(microseconds[life]));
    child.signal(SIGKILL);
    REQUIRE(child.wait() == 1000 + SIGKILL);
  }
  REQUIRE(finish(run) == 0);
  CHECK(result(run).metrics == undisturbed().metrics);
  CHECK(result(run).model == undisturbed().model);
}

}  // namespace

TEST_CASE(kProgram, "[.child][process]") {
  REQUIRE(Child::argument() != nullptr);
  std::exit(train(Child::argument()));
}

TEST_CASE("a run killed at ten random points ends with the bits of one that was not", "[process]") {
  kill_ten_times("killed", 2026);
}

TEST_CASE("a run killed ten times that saves in the background ends with the same bits",
          "[async][process]") {
  kill_ten_times(kBackground, 2027);
}

TEST_CASE("runs killed while they save in the background end with the same bits",
          "[.][stress][async]") {
  for (const uint64_t seed : {1, 2}) kill_ten_times(kBackground, seed);
}

TEST_CASE("Ctrl-C saves, exits with 130, and the run goes on with the same bits", "[process]") {
  const TempDir dir;
  const int number = GENERATE(SIGINT, SIGTERM);
  {
    Child child(kProgram, dir / "stopped");
    for (int i = 0; i < 20; ++i) {
      REQUIRE(child.arrives());
      child.go_on();
    }
    REQUIRE(child.arrives());
    child.signal(number);
    child.go_on();
    while (child.arrives()) child.go_on();
    CHECK(child.wait() == 128 + number);
  }
  const std::vector<int64_t> saved = nn::Checkpointer(dir / "stopped").steps();
  REQUIRE(saved.size() == 2);
  CHECK(saved.back() % kSaveEvery != 0);  // one that only the signal asked for
  REQUIRE(finish(dir / "stopped") == 0);
  CHECK(result(dir / "stopped") == undisturbed());
}

TEST_CASE("a second Ctrl-C ends the program at once", "[process]") {
  const TempDir dir;
  Child child(kProgram, dir / "run");
  for (int i = 0; i < 10; ++i) {
    REQUIRE(child.arrives());
    child.go_on();
  }
  REQUIRE(child.arrives());  // and waits there, in the middle of a step
  while (!child.has_ended()) {
    child.signal(SIGINT);
    ::usleep(150'000);
  }
  CHECK(child.wait() == 1000 + SIGINT);
}
