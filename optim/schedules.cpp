#include <algorithm>
#include <limits>

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

}  // namespace hero::optim
