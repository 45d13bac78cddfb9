#pragma once
// Learning rates over time. A curve says what a rate is after t steps, in closed form, so that it
// is exact however it is reached; a Schedule applies a curve to the groups of an optimizer:
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

/// The value after `t` steps (t = 0, 1, ...) for a group that began with `base`. Any function will
/// do; those below are PyTorch's schedules of the same names.
using Curve = std::function<double(double base, int64_t t)>;

/// \name Curves
/// \{

/// base * gamma^floor(t / step_size)
struct StepLR {
  int64_t step_size = 0;
  double gamma = 0.1;
  double operator()(double base, int64_t t) const;
};

/// base * gamma^(how many milestones are at or below t)
struct MultiStepLR {
  std::vector<int64_t> milestones;
  double gamma = 0.1;
  double operator()(double base, int64_t t) const;
};

/// base * gamma^t
struct ExponentialLR {
  double gamma = 0.0;
  double operator()(double base, int64_t t) const;
};

/// base * factor before total_iters, then base.
struct ConstantLR {
  double factor = 1.0 / 3.0;
  int64_t total_iters = 5;
  double operator()(double base, int64_t t) const;
};

/// From base * start_factor on a straight line to base * end_factor at total_iters, then constant:
/// a warm-up.
struct LinearLR {
  double start_factor = 1.0 / 3.0;
  double end_factor = 1.0;
  int64_t total_iters = 5;
  double operator()(double base, int64_t t) const;
};

/// base * (1 - t / total_iters)^power, 0 from total_iters on.
struct PolynomialLR {
  int64_t total_iters = 5;
  double power = 1.0;
  double operator()(double base, int64_t t) const;
};

/// eta_min + (base - eta_min) (1 + cos(pi t / t_max)) / 2: down to eta_min at t_max, then up again.
/// Loshchilov and Hutter, arXiv 1608.03983.
struct CosineAnnealingLR {
  int64_t t_max = 0;
  double eta_min = 0.0;
  double operator()(double base, int64_t t) const;
};

/// CosineAnnealingLR that starts anew after t_0 steps, then after t_0 * t_mult, t_0 * t_mult^2, ...
struct CosineAnnealingWarmRestarts {
  int64_t t_0 = 0;
  int64_t t_mult = 1;
  double eta_min = 0.0;
  double operator()(double base, int64_t t) const;
};

enum class Anneal { cos, linear };

/// Up from max_lr / div_factor to max_lr, then down to max_lr / div_factor / final_div_factor at
/// total_steps - 1, where it stays; base plays no part. With three_phase it comes down to where it
/// began first. Smith and Topin, arXiv 1708.07120.
struct OneCycleLR {
  double max_lr = 0.0;
  int64_t total_steps = 0;
  double pct_start = 0.3;  ///< part of the steps that go up
  Anneal anneal = Anneal::cos;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
  double base_momentum = 0.85;
  double max_momentum = 0.95;

  double operator()(double base, int64_t t) const;
  /// The opposite movement, for a Schedule of "momentum" or "beta1".
  Curve momentum() const;
};

enum class CyclicMode { triangular, triangular2, exp_range };

/// Up from base to max_lr in step_size_up steps and down again in step_size_down, over and over.
/// The height is halved with each cycle (triangular2), or multiplied by gamma^t (exp_range). Smith,
/// arXiv 1506.01186.
struct CyclicLR {
  double max_lr = 0.0;
  int64_t step_size_up = 2000;
  int64_t step_size_down = 0;  ///< 0: step_size_up
  CyclicMode mode = CyclicMode::triangular;
  double gamma = 1.0;
  double base_momentum = 0.8;
  double max_momentum = 0.9;

  double operator()(double base, int64_t t) const;
  /// The opposite movement, for a Schedule of "momentum" or "beta1".
  Curve momentum() const;
};

/// base * factor(t)
struct LambdaLR {
  std::function<double(int64_t t)> factor;
  double operator()(double base, int64_t t) const;
};

/// base * factor(1) * ... * factor(t)
struct MultiplicativeLR {
  std::function<double(int64_t t)> factor;
  double operator()(double base, int64_t t) const;
};

/// One curve after another: curves[i + 1] begins, at its own step 0, with step milestones[i].
struct SequentialLR {
  std::vector<Curve> curves;
  std::vector<int64_t> milestones;
  double operator()(double base, int64_t t) const;
};

/// All curves at once: each takes the value of the one before as its base. Factors multiply.
struct ChainedScheduler {
  std::vector<Curve> curves;
  double operator()(double base, int64_t t) const;
};
/// \}

/// Moves one option of every group along a curve. Values that groups have when it is made are its
/// base values; it sets step 0's at once. The optimizer must outlive it.
/// \snippet test_examples_optim.cpp Schedule
class Schedule {
 public:
  Schedule(Optimizer& optimizer, Curve curve, std::string option = "lr");

  /// The next value; call after the optimizer's step().
  void step();
  /// Steps taken.
  int64_t steps() const { return steps_; }
  /// The present value of a group.
  double value(int group = 0) const { return optimizer_.option(option_, group); }

  /// Steps and base values, as float64 arrays.
  StateDict state_dict() const;
  /// Goes on from where state_dict() was taken, and sets that moment's values.
  void load_state_dict(const StateDict& dict);

 private:
  void apply();

  Optimizer& optimizer_;
  Curve curve_;
  std::string option_;
  std::vector<double> base_;
  int64_t steps_ = 0;
};

enum class PlateauMode { min, max };
enum class Threshold { relative, absolute };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  ///< whether small or large metrics are good
  double factor = 0.1;
  int64_t patience = 10;  ///< steps without improvement that are let pass
  double threshold = 1e-4;
  Threshold threshold_mode = Threshold::relative;
  int64_t cooldown = 0;  ///< steps after a reduction in which nothing is counted
  double min_lr = 0.0;
  double eps = 1e-8;  ///< smaller changes of a rate are not made
};

/// Multiplies the rates by `factor` when a metric has stopped improving.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  void step(double metric);
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
