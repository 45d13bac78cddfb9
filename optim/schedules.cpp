#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/optim/schedules.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim {

namespace {

std::string base_key(size_t group) {
  std::string key = "schedule.base.";
  return key.append(std::to_string(group));
}

}  // namespace

Schedule::Schedule(Optimizer& optimizer, Curve curve, std::string option)
    : optimizer_(optimizer), curve_(std::move(curve)), option_(std::move(option)) {
  check(static_cast<bool>(curve_), "schedule: there is no curve");
  apply();
}

// A group that was added later begins with the value that it has.
std::vector<double> Schedule::bases() const {
  check(static_cast<bool>(curve_),
        "schedule: it was moved from; use the one that it was moved into");
  std::vector<double> all = base_;
  for (auto group = static_cast<int>(all.size()); group < optimizer_.groups(); ++group) {
    all.push_back(optimizer_.option(option_, group));
  }
  return all;
}

void Schedule::apply() {
  base_ = bases();
  for (int group = 0; group < optimizer_.groups(); ++group) {
    const double base = base_[static_cast<size_t>(group)];
    optimizer_.set_option(option_, curve_(base, steps_), group);
  }
}

void Schedule::step() {
  ++steps_;
  try {
    apply();
  } catch (...) {
    --steps_;
    throw;
  }
}

StateDict Schedule::state_dict() const {
  StateDict dict = {state_number("schedule.steps", static_cast<double>(steps_))};
  const std::vector<double> all = bases();
  for (size_t i = 0; i < all.size(); ++i) dict.push_back(state_number(base_key(i), all[i]));
  return dict;
}

void Schedule::load_state_dict(const StateDict& dict) {
  StateLookup lookup("schedule", dict);
  auto steps = static_cast<int64_t>(lookup.count("schedule.steps"));
  std::vector<double> base;
  base_ = bases();
  for (size_t i = 0; i < base_.size(); ++i) base.push_back(lookup.finite(base_key(i)));
  lookup.finish();
  std::swap(steps_, steps);
  std::swap(base_, base);
  try {
    apply();
  } catch (...) {  // a value that the optimizer refuses: all is as it was
    std::swap(steps_, steps);
    std::swap(base_, base);
    apply();
    throw;
  }
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.mode == PlateauMode::min ? std::numeric_limits<double>::infinity()
                                             : -std::numeric_limits<double>::infinity()) {
  check(options.factor >= 0.0 && options.factor < 1.0,
        "reduce_lr_on_plateau: factor must be in [0, 1): ", options.factor);
  check(options.patience >= 0 && options.cooldown >= 0,
        "reduce_lr_on_plateau: patience and cooldown must be 0 or more: ", options.patience, ", ",
        options.cooldown);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == Threshold::relative;
  if (options_.mode == PlateauMode::min) {
    return metric < (relative ? best_ * (1.0 - options_.threshold) : best_ - options_.threshold);
  }
  return metric > (relative ? best_ * (1.0 + options_.threshold) : best_ + options_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  bad_ += 1.0;
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0.0;
  }
  if (cooling_ > 0.0) {
    cooling_ -= 1.0;
    bad_ = 0.0;
  }
  if (bad_ <= static_cast<double>(options_.patience)) return;
  for (int group = 0; group < optimizer_.groups(); ++group) {
    const double old = optimizer_.lr(group);
    const double reduced = std::max(old * options_.factor, options_.min_lr);
    if (old - reduced > options_.eps) optimizer_.set_lr(reduced, group);
  }
  cooling_ = static_cast<double>(options_.cooldown);
  bad_ = 0.0;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict dict = {state_number("plateau.best", best_), state_number("plateau.bad", bad_),
                    state_number("plateau.cooling", cooling_)};
  for (int group = 0; group < optimizer_.groups(); ++group) {
    std::string key = "plateau.lr.";
    dict.push_back(state_number(key.append(std::to_string(group)), optimizer_.lr(group)));
  }
  return dict;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& dict) {
  StateLookup lookup("reduce_lr_on_plateau", dict);
  const double best = lookup.number("plateau.best");
  const double bad = lookup.count("plateau.bad");
  const double cooling = lookup.count("plateau.cooling");
  std::vector<double> rates;
  for (int group = 0; group < optimizer_.groups(); ++group) {
    std::string key = "plateau.lr.";
    constexpr double kMost = std::numeric_limits<double>::max();
    rates.push_back(lookup.number(key.append(std::to_string(group)), 0.0, kMost));
  }
  lookup.finish();
  best_ = best;
  bad_ = bad;
  cooling_ = cooling;
  for (size_t i = 0; i < rates.size(); ++i) optimizer_.set_lr(rates[i], static_cast<int>(i));
}

namespace {

double real(int64_t value) { return static_cast<double>(value); }

void check_positive(const char* curve, const char* field, int64_t value) {
  check(value > 0, curve, ": ", field, " must be positive: ", value);
}

void check_curves(const char* what, const std::vector<Curve>& curves) {
  for (size_t i = 0; i < curves.size(); ++i) {
    check(static_cast<bool>(curves[i]), what, ": there is no curve at ", i, " of ", curves.size());
  }
}

double cosine_between(double from, double to, double part) {
  return to + (from - to) * (1.0 + std::cos(std::numbers::pi * part)) / 2.0;
}

double between(Anneal anneal, double from, double to, double part) {
  return anneal == Anneal::cos ? cosine_between(from, to, part) : from + (to - from) * part;
}

// A value that goes through three levels, or up and down and on to a fourth.
struct Levels {
  double start, peak, end;
};

double one_cycle(const OneCycleLR& o, const Levels& level, int64_t t) {
  check_positive("one_cycle_lr", "total_steps", o.total_steps);
  check(o.pct_start >= 0.0 && o.pct_start <= 1.0,
        "one_cycle_lr: pct_start must be in [0, 1]: ", o.pct_start);
  const double last = real(o.total_steps) - 1.0;
  const double top = o.pct_start * real(o.total_steps) - 1.0;
  const double at = std::min(real(t), last);
  const auto phase = [&](double from, double to, double begin, double end) {
    return between(o.anneal, from, to, (at - begin) / (end - begin));
  };
  if (at <= top) return phase(level.start, level.peak, 0.0, top);
  if (!o.three_phase) return phase(level.peak, level.end, top, last);
  const double down = 2.0 * o.pct_start * real(o.total_steps) - 2.0;
  if (at <= down) return phase(level.peak, level.start, top, down);
  return phase(level.start, level.end, down, last);
}

}  // namespace

double StepLR::operator()(double base, int64_t t) const {
  check_positive("step_lr", "step_size", step_size);
  return base * std::pow(gamma, real(t / step_size));
}

double MultiStepLR::operator()(double base, int64_t t) const {
  const auto passed = std::count_if(milestones.begin(), milestones.end(),
                                    [t](int64_t milestone) { return milestone <= t; });
  return base * std::pow(gamma, real(passed));
}

double ExponentialLR::operator()(double base, int64_t t) const {
  return base * std::pow(gamma, real(t));
}

double ConstantLR::operator()(double base, int64_t t) const {
  return t < total_iters ? base * factor : base;
}

double LinearLR::operator()(double base, int64_t t) const {
  check_positive("linear_lr", "total_iters", total_iters);
  const double part = real(std::min(t, total_iters)) / real(total_iters);
  return base * (start_factor + (end_factor - start_factor) * part);
}

double PolynomialLR::operator()(double base, int64_t t) const {
  check_positive("polynomial_lr", "total_iters", total_iters);
  return base * std::pow(1.0 - real(std::min(t, total_iters)) / real(total_iters), power);
}

double CosineAnnealingLR::operator()(double base, int64_t t) const {
  check_positive("cosine_annealing_lr", "t_max", t_max);
  return cosine_between(base, eta_min, real(t) / real(t_max));
}

double CosineAnnealingWarmRestarts::operator()(double base, int64_t t) const {
  check_positive("cosine_annealing_warm_restarts", "t_0", t_0);
  check_positive("cosine_annealing_warm_restarts", "t_mult", t_mult);
  int64_t length = t_0;
  if (t_mult == 1) {
    t %= t_0;
  } else {
    for (; t >= length; length *= t_mult) t -= length;
  }
  return cosine_between(base, eta_min, real(t) / real(length));
}

double OneCycleLR::operator()(double, int64_t t) const {
  const double start = max_lr / div_factor;
  return one_cycle(*this, {start, max_lr, start / final_div_factor}, t);
}

Curve OneCycleLR::momentum() const {
  return [cycle = *this](double, int64_t t) {
    return one_cycle(cycle, {cycle.max_momentum, cycle.base_momentum, cycle.max_momentum}, t);
  };
}

double SWALR::operator()(double base, int64_t t) const {
  check(anneal_epochs >= 0, "swalr: anneal_epochs must be 0 or more: ", anneal_epochs);
  return t >= anneal_epochs ? swa_lr : between(anneal, base, swa_lr, real(t) / real(anneal_epochs));
}

namespace {

// The share of a cycle's height that is reached after t steps.
double cyclic_share(const CyclicLR& o, int64_t t) {
  check_positive("cyclic_lr", "step_size_up", o.step_size_up);
  check(o.step_size_down >= 0, "cyclic_lr: step_size_down must be 0 or more: ", o.step_size_down);
  const int64_t down = o.step_size_down == 0 ? o.step_size_up : o.step_size_down;
  const int64_t length = o.step_size_up + down, cycle = t / length, at = t % length;
  const double share =
      at <= o.step_size_up ? real(at) / real(o.step_size_up) : real(length - at) / real(down);
  if (o.mode == CyclicMode::triangular2) return share * std::pow(0.5, real(cycle));
  return o.mode == CyclicMode::exp_range ? share * std::pow(o.gamma, real(t)) : share;
}

}  // namespace

double CyclicLR::operator()(double base, int64_t t) const {
  return base + (max_lr - base) * cyclic_share(*this, t);
}

Curve CyclicLR::momentum() const {
  return [cycle = *this](double, int64_t t) {
    return cycle.max_momentum - (cycle.max_momentum - cycle.base_momentum) * cyclic_share(cycle, t);
  };
}

double LambdaLR::operator()(double base, int64_t t) const {
  check(static_cast<bool>(factor), "lambda_lr: there is no factor");
  return base * factor(t);
}

double MultiplicativeLR::operator()(double base, int64_t t) const {
  check(static_cast<bool>(factor), "multiplicative_lr: there is no factor");
  auto last = std::find_if(reached.begin(), reached.end(),
                           [base](const Reached& each) { return each.base == base; });
  if (last == reached.end()) {
    constexpr size_t kBases = 64;  // in a chain, the base may change with every step
    if (reached.size() == kBases) reached.clear();
    last = reached.insert(reached.end(), {base, base, 0});
  }
  if (t < last->t) *last = {base, base, 0};
  while (last->t < t) last->value *= factor(++last->t);
  return last->value;
}

double SequentialLR::operator()(double base, int64_t t) const {
  check(!curves.empty() && milestones.size() + 1 == curves.size(), "sequential_lr: ", curves.size(),
        " curves need one milestone between each two, not ", milestones.size());
  check(std::is_sorted(milestones.begin(), milestones.end()),
        "sequential_lr: milestones must not descend");
  check_curves("sequential_lr", curves);
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), t);
  const auto which = static_cast<size_t>(next - milestones.begin());
  return curves[which](base, which == 0 ? t : t - milestones[which - 1]);
}

double ChainedScheduler::operator()(double base, int64_t t) const {
  check_curves("chained_scheduler", curves);
  for (const Curve& curve : curves) base = curve(base, t);
  return base;
}

}  // namespace hero::optim
