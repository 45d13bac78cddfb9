#pragma once
// Learning rates over time. A curve gives the rate after t steps in closed form, so a resumed run
// has exactly the same rates; a Schedule applies a curve to the groups of an optimizer:
//
//   optim::Schedule schedule(adamw, optim::SequentialLR{
//       {optim::LinearLR{.start_factor = 0.01, .total_iters = 100},
//        optim::CosineAnnealingLR{.t_max = 900}}, {100}});
//   ... adamw.step(); schedule.step();
#include <functional>
#include <string>
#include <vector>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Returns the value after `t` steps (t = 0, 1, ...) for a group that began with `base`. Any
/// function will do; those below are PyTorch's schedules of the same names.
using Curve = std::function<double(double base, int64_t t)>;

/// \name Curves
/// \{

/// base * gamma^floor(t / step_size).
struct StepLR {
  int64_t step_size = 0;  ///< steps between two decays; positive
  double gamma = 0.1;     ///< factor of each decay
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// base * gamma^(the number of milestones that are at or below t).
struct MultiStepLR {
  std::vector<int64_t> milestones;  ///< steps at which the rate decays, ascending
  double gamma = 0.1;               ///< factor of each decay
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// base * gamma^t
struct ExponentialLR {
  double gamma = 0.0;  ///< factor of each step
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// base * factor before total_iters, then base.
struct ConstantLR {
  double factor = 1.0 / 3.0;  ///< what the rate is multiplied by before total_iters
  int64_t total_iters = 5;    ///< the step at which the rate becomes base
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// From base * start_factor on a straight line to base * end_factor at total_iters, then constant:
/// a warm-up.
struct LinearLR {
  double start_factor = 1.0 / 3.0;  ///< factor of base at step 0
  double end_factor = 1.0;          ///< factor of base from total_iters on
  int64_t total_iters = 5;          ///< length of the straight line, in steps
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// base * (1 - t / total_iters)^power, 0 from total_iters on.
struct PolynomialLR {
  int64_t total_iters = 5;  ///< the step from which on the rate is 0
  double power = 1.0;       ///< the exponent
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// eta_min + (base - eta_min) (1 + cos(pi t / t_max)) / 2: down to eta_min at t_max, then up again.
/// Loshchilov and Hutter, arXiv 1608.03983.
struct CosineAnnealingLR {
  int64_t t_max = 0;     ///< steps from base down to eta_min
  double eta_min = 0.0;  ///< the smallest rate
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// CosineAnnealingLR that restarts after t_0 steps, then after t_0 * t_mult, t_0 * t_mult^2, ...
/// steps more.
struct CosineAnnealingWarmRestarts {
  int64_t t_0 = 0;       ///< length of the first period, in steps
  int64_t t_mult = 1;    ///< each period is this many times as long as the one before
  double eta_min = 0.0;  ///< the smallest rate
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// The shape of OneCycleLR's curve: a half cosine or a straight line.
enum class Anneal { cos, linear };

/// Rises from max_lr / div_factor to max_lr, then falls to max_lr / div_factor / final_div_factor
/// at step total_steps - 1, where it stays; base plays no part. With three_phase, the rate first
/// falls to where it began, and then on to the end. Smith and Topin, arXiv 1708.07120.
struct OneCycleLR {
  double max_lr = 0.0;            ///< the highest rate
  int64_t total_steps = 0;        ///< length of the whole cycle, in steps
  double pct_start = 0.3;         ///< share of the steps in which the rate rises
  Anneal anneal = Anneal::cos;    ///< shape of the curve
  double div_factor = 25.0;       ///< max_lr divided by the first rate
  double final_div_factor = 1e4;  ///< the first rate divided by the last
  bool three_phase = false;       ///< true: rise, fall to the first rate, fall to the last
  double base_momentum = 0.85;    ///< the lowest momentum, at the highest rate
  double max_momentum = 0.95;     ///< the highest momentum, at the lowest rates

  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
  /// The opposite movement, for a Schedule of the option "momentum" or "beta1".
  Curve momentum() const;
};

/// From base to swa_lr in anneal_epochs steps, where it stays: for averages of weights.
struct SWALR {
  double swa_lr = 0.0;          ///< the last rate
  int64_t anneal_epochs = 10;   ///< steps until it is reached; 0: at once
  Anneal anneal = Anneal::cos;  ///< shape of the curve
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// How CyclicLR changes the height of its cycles.
enum class CyclicMode { triangular, triangular2, exp_range };

/// Rises from base to max_lr in step_size_up steps and falls again in step_size_down, over and
/// over. The height is halved with each cycle (triangular2) or multiplied by gamma^t (exp_range).
/// Smith, arXiv 1506.01186.
struct CyclicLR {
  double max_lr = 0.0;                       ///< the highest rate of the first cycle
  int64_t step_size_up = 2000;               ///< steps of the rise
  int64_t step_size_down = 0;                ///< steps of the fall; 0: as many as step_size_up
  CyclicMode mode = CyclicMode::triangular;  ///< how the height changes from cycle to cycle
  double gamma = 1.0;                        ///< decay of the height in each step, for exp_range
  double base_momentum = 0.8;                ///< the lowest momentum, at the highest rate
  double max_momentum = 0.9;                 ///< the highest momentum, at the lowest rate

  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
  /// The opposite movement, for a Schedule of the option "momentum" or "beta1".
  Curve momentum() const;
};

/// base * factor(t)
struct LambdaLR {
  std::function<double(int64_t t)> factor;  ///< the factor of base after t steps
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// base * factor(1) * ... * factor(t), multiplied in this order. Each step goes on from the last
/// one with the same base, so it calls factor once; do not call one curve on several threads at
/// once.
struct MultiplicativeLR {
  std::function<double(int64_t t)> factor;  ///< the factor of step t, for t from 1
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;

  /// Where the last call with a base ended.
  struct Reached {
    double base, value;  ///< the base, and the rate after t steps
    int64_t t;           ///< the number of steps
  };
  mutable std::vector<Reached> reached = {};  ///< one for each recent base
};

/// One curve after another: curves[i + 1] begins with its own step 0 at step milestones[i].
struct SequentialLR {
  std::vector<Curve> curves;        ///< the curves, in order
  std::vector<int64_t> milestones;  ///< the steps at which the second and all later curves begin
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};

/// All curves at once: each takes the value of the previous one as its base, so their factors are
/// multiplied.
struct ChainedScheduler {
  std::vector<Curve> curves;  ///< the curves, in order
  /// The rate after t steps.
  double operator()(double base, int64_t t) const;
};
/// \}

/// Moves one option of every group of an optimizer along a curve. The values that the groups have
/// when the schedule is made are the curve's base values; the value of step 0 is set at once. The
/// optimizer must outlive the schedule.
/// \snippet test_examples_optim.cpp Schedule
class Schedule {
 public:
  /// Makes a schedule for the option of this name. Throws an Error if the optimizer has no such
  /// option.
  Schedule(Optimizer& optimizer, Curve curve, std::string option = "lr");

  /// Sets the next value of every group; a group that add_param_group() has added meanwhile begins
  /// with the value that it has. Call it after the optimizer's step().
  void step();
  /// The number of steps taken.
  int64_t steps() const { return steps_; }
  /// The present value of a group.
  double value(int group = 0) const { return optimizer_.option(option_, group); }

  /// The number of steps and the base values, as float64 arrays.
  StateDict state_dict() const;
  /// Resumes from the moment at which state_dict() was called, and sets its values.
  void load_state_dict(const StateDict& dict);

 private:
  std::vector<double> bases() const;
  void apply();

  Optimizer& optimizer_;
  Curve curve_;
  std::string option_;
  std::vector<double> base_;
  int64_t steps_ = 0;
};

/// Whether small or large metrics are good.
enum class PlateauMode { min, max };
/// Whether a threshold is a share of the best metric, or a difference from it.
enum class Threshold { relative, absolute };

/// Options of ReduceLROnPlateau.
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  ///< whether small or large metrics are good
  double factor = 0.1;                  ///< what the rates are multiplied by, below 1
  int64_t patience = 10;                ///< steps without an improvement that are tolerated
  double threshold = 1e-4;  ///< the least change of the metric that counts as an improvement
  /// Whether `threshold` is relative to the best metric.
  Threshold threshold_mode = Threshold::relative;
  int64_t cooldown = 0;  ///< steps after a reduction during which none is counted
  double min_lr = 0.0;   ///< the rates do not fall below this
  double eps = 1e-8;     ///< a rate that would change by less than this is left alone
};

/// Multiplies the rates of all groups by `factor` when a metric has stopped improving.
class ReduceLROnPlateau {
 public:
  /// Makes a schedule of the learning rates. The optimizer must outlive it.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// Takes the newest metric, and lowers the rates if there was no improvement for long enough.
  void step(double metric);
  /// The best metric so far; infinite before the first step().
  double best() const { return best_; }

  /// \name As Schedule's
  /// \{
  StateDict state_dict() const;
  void load_state_dict(const StateDict& dict);
  /// \}

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  double bad_ = 0.0, cooling_ = 0.0;
};

}  // namespace hero::optim
