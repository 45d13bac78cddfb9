// The bubble of a pipeline on threads by the clock, beside its formula. Stages sleep in place of
// computing, so that every rank has a processor of its own however many the machine has.
//   bench_pipeline [MILLISECONDS]    of a forward; a backward takes twice as long
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include <sys/prctl.h>

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/dist/pipeline.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

// Multiplies by a weight, forward and backward in their times.
struct Sleeps : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  double ms;
  explicit Sleeps(double milliseconds) : ms(milliseconds) {}
  const char* name() const override { return "sleeps"; }
  static void sleep(double ms) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  }
  Array forward(const Array& x, const Array& w) {
    if (x.device() != kMeta) sleep(ms);
    return (Tensor(x) * Tensor(w)).array();
  }
  Grads backward(const Tensor& g) override {
    sleep(2.0 * ms);
    return {needs(0) ? g * input(1) : Tensor(), needs(1) ? sum(g * input(0)) : Tensor()};
  }
};

struct Stage : nn::Module {
  Tensor& weight = parameter("weight", Shape{}, nn::init::ones());
  double ms;
  explicit Stage(double milliseconds) : ms(milliseconds) {}
  Tensor forward(const Tensor& x) override { return record(Sleeps(ms), x, weight); }
};

// The least share of a step, of five, in which a rank does nothing.
double bubble_of(const Communicator& world, const Schedule& schedule, int micro_batches,
                 double ms) {
  ::prctl(PR_SET_TIMERSLACK, 1);  // a thread's sleeps end 50 us late otherwise
  const int stages = world.size() * schedule.chunks();
  std::optional<nn::DeviceScope> meta(kMeta);
  nn::Sequential net;
  for (int i = 0; i < stages; ++i) net.append<Stage>(ms / schedule.chunks());
  meta.reset();
  nn::PipelineSequential model(net, [](const Tensor& y, const Tensor&) { return mean(y); });
  Pipeline pipe(model, world, {.schedule = schedule, .micro_batches = micro_batches});
  const Tensor x = ones({micro_batches, 4}), y = zeros({micro_batches, 4});
  pipe.step(x, y);
  double best = 1.0;
  for (int i = 0; i < 5; ++i) {
    world.barrier();
    const Clock::time_point start = Clock::now();
    pipe.step(x, y);
    world.barrier();
    const double step = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    best = std::min(best, 1.0 - 3.0 * ms * micro_batches / step);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const double ms = argc > 1 ? std::atof(argv[1]) : 4.0;
  std::printf("schedule       ranks  micro-batches  bubble  formula  ratio\n");
  for (const Schedule& schedule :
       {Schedule::gpipe(), Schedule::one_f_one_b(), Schedule::interleaved(2)}) {
    for (const int p : {2, 3, 4}) {
      for (const int m : {4 * p, 2 * p}) {
        const double formula = (p - 1.0) / (schedule.chunks() * m + p - 1.0);
        double bubble = 0.0;
        run_ranks(p, [&](Communicator& world) {
          const double mine = bubble_of(world, schedule, m, ms);
          if (world.rank() == world.size() - 1) bubble = mine;
        });
        std::printf("%-14s %5d %14d %7.3f %8.3f %6.2f\n", schedule.name().c_str(), p, m, bubble,
                    formula, bubble / formula);
      }
    }
  }
}
