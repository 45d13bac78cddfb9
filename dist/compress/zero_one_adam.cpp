#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/profile/observer.h>
#include <hero/dist/compress/one_bit_link.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/check_option.h>

namespace hero::dist {

namespace k = core::kernels;

namespace {

// Indices of a state's arrays.
enum ZeroOneArray : uint8_t { kFirst, kSecond };

}  // namespace

void ZeroOneAdamOptions::check_values() const {
  constexpr const char* kName = "zero_one_adam";
  optim::check_adam_options(kName, *this);
  const std::pair<const char*, int64_t> counts[] = {{"var_freeze_step", var_freeze_step},
                                                    {"var_update_scaler", var_update_scaler},
                                                    {"local_step_scaler", local_step_scaler},
                                                    {"local_step_clipper", local_step_clipper}};
  for (const auto& [option, value] : counts) {
    check(value > 0, kName, ": ", option, " must be positive: ", value);
  }
  check(bucket_elements > 0 && bucket_elements % 32 == 0, kName,
        ": bucket_elements must be a positive multiple of 32: ", bucket_elements);
}

ZeroOneAdam::ZeroOneAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
                         const ZeroOneAdamOptions& options)
    : ZeroOneAdam(ddp, std::vector<Group>{{params, options}}) {}

ZeroOneAdam::ZeroOneAdam(const DataParallel& ddp, const std::vector<Group>& groups)
    : OptimizerOf("zero_one_adam", groups),
      OneBitErrors("zero_one_adam", ddp, parameters(), options().bucket_elements) {}

void ZeroOneAdam::check_group(const std::vector<Tensor>& /*params*/) const {
  fail(
      "zero_one_adam: add_param_group: the bits of all parameters are sent as one vector; make "
      "another "
      "optimizer of all of them");
}

std::vector<const char*> ZeroOneAdam::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }
std::vector<const char*> ZeroOneAdam::number_names() const {
  return {"variance_steps", "var_interval", "var_counter", "local_step_interval",
          "local_step_counter"};
}
double ZeroOneAdam::first_value(int, const char* name) const {
  return std::string_view(name).ends_with("_interval") ? 1.0 : 0.0;
}

// All parameters take every step, so that their numbers are the same.
double ZeroOneAdam::number(Number which) const {
  const State& first = state(0);
  const bool begins = first.steps == 0.0;
  return begins ? first_value(0, number_names()[which]) : first.numbers[which];
}
void ZeroOneAdam::set_number(Number which, double value) {
  for (int i = 0; i < group_end(groups() - 1); ++i) state(i).numbers[which] = value;
}
double ZeroOneAdam::steps() const { return state(0).steps; }

ZeroOneAdam::Kind ZeroOneAdam::next_step() const {
  if (steps() >= static_cast<double>(options().var_freeze_step)) return Kind::local;
  return std::fmod(steps() + 1.0, number(kInterval)) == 0.0 ? Kind::variance : Kind::bits;
}

void ZeroOneAdam::each_state(const std::function<void(int group, size_t at, State& state)>& body) {
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      body(group, static_cast<size_t>(i), state(i));
    }
  }
}

Array ZeroOneAdam::gradient_or_zeros(const State& state) const {
  const Array& param = state.param.array();
  const Tensor grad = state.param.grad();
  return grad.defined() ? grad.array() : Array::zeros(param.shape(), param.dtype(), param.device());
}

void ZeroOneAdam::step() {
  const ProfileScope::Step profiled("optimizer step");
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  link_->check_fits(parameters());
  follow();
  const Kind kind = next_step();
  std::vector<Array> gradients;  // zeros, too, live until run_batch() reads them
  if (kind == Kind::bits) link_->check_finite(parameters());
  if (kind == Kind::local) link_->check_finite_here(parameters());
  each_state([&](int group, size_t, State& s) {
    prepare(group, s);
    s.steps += 1.0;
  });
  switch (kind) {
    case Kind::variance:
      set_number(kVarianceSteps, number(kVarianceSteps) + 1.0);
      each_state([&](int group, size_t, State& s) {
        gradients.push_back(gradient_or_zeros(s));
        update(group, s, gradients.back());
      });
      run_batch();
      count_variance_step();
      break;
    case Kind::bits:
      step_by_bits();
      break;
    case Kind::local:
      step_locally();
      break;
  }
  const bool local = next_step() == Kind::local;
  if (local && kind != Kind::local) begin_local_steps();
  link_->keep_gradients_local(next_step() != Kind::variance);
}

void ZeroOneAdam::update(int group, State& state, const Array& grad) {
  const ZeroOneAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  run<k::Adam>({{{1.0, 0.0},
                 {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                 1.0 - o.lr * o.weight_decay,
                 o.lr / (1.0 - std::pow(beta1, state.steps)),
                 std::sqrt(1.0 - std::pow(beta2, state.numbers[kVarianceSteps])),
                 o.eps}},
               state, grad);
}

void ZeroOneAdam::count_variance_step() {
  const double counted = number(kCounter) + 1.0;
  const bool doubles = counted == static_cast<double>(options().var_update_scaler);
  set_number(kCounter, doubles ? 0.0 : counted);
  if (doubles) set_number(kInterval, number(kInterval) * 2.0);
}

// p = p * keep - rate * m / denominator, with m = 0 where v is.
void ZeroOneAdam::move(int group, State& state, double keep, double rate) {
  const ZeroOneAdamOptions& o = options(group);
  const double updates = std::max(state.numbers[kVarianceSteps], 1.0);
  run<k::FrozenAdam>({keep, rate, std::sqrt(1.0 - std::pow(o.betas[1], updates)), o.eps}, state,
                     state.param.array());
}

void ZeroOneAdam::step_by_bits() {
  const Array gradients = link_->flat();
  each_state([&](int, size_t at, State& s) {
    const Array part = link_->part_of(gradients, at);
    if (part.numel() > 0)
      core::backend(part.device()).run(core::call::Copy{gradient_or_zeros(s), part});
  });
  link_->mean(gradients);
  each_state([&](int group, size_t at, State& s) {
    const ZeroOneAdamOptions& o = options(group);
    const Array& m = s.arrays[kFirst].array;
    core::map_into<k::Lerp>(m, m, link_->part_of(gradients, at), Scalar(1.0 - o.betas[0]));
    move(group, s, 1.0 - o.lr * o.weight_decay, o.lr / (1.0 - std::pow(o.betas[0], s.steps)));
  });
  run_batch();
}

void ZeroOneAdam::begin_local_steps() {
  link_->reset_errors();
  sum_ = {};
}

void ZeroOneAdam::step_locally() {
  if (local_steps_ == 0) {
    sum_ = link_->flat();
    core::backend(sum_.device()).run(core::call::Fill{sum_, 0.0});
    at_mean_.clear();
    each_state([&](int, size_t, State& s) { at_mean_.push_back(s.param.array().clone()); });
    rates_.assign(static_cast<size_t>(groups()), 0.0);
    keeps_.assign(static_cast<size_t>(groups()), 1.0);
  }
  for (int group = 0; group < groups(); ++group) {
    const ZeroOneAdamOptions& o = options(group);
    const double keep = 1.0 - o.lr * o.weight_decay;
    const double rate = o.lr / (1.0 - std::pow(o.betas[0], steps()));
    rates_[static_cast<size_t>(group)] += rate;
    keeps_[static_cast<size_t>(group)] *= keep;
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      const Array& m = s.arrays[kFirst].array;
      core::map_into<k::Lerp>(m, m, gradient_or_zeros(s), Scalar(1.0 - o.betas[0]));
      move(group, s, keep, rate);
    }
    run_batch();
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const Array part = link_->part_of(sum_, static_cast<size_t>(i));
      core::map_into<k::Affine>(part, state(i).arrays[kFirst].array, Scalar(rate), part);
    }
  }
  ++local_steps_;
  const bool due = static_cast<double>(local_steps_) >= number(kLocalInterval);
  const double counted = number(kLocalCounter) + 1.0;
  const bool doubles = counted == static_cast<double>(options().local_step_scaler);
  set_number(kLocalCounter, doubles ? 0.0 : counted);
  if (doubles) {
    set_number(kLocalInterval, std::min(number(kLocalInterval) * 2.0,
                                        static_cast<double>(options().local_step_clipper)));
  }
  if (due) synchronize();
}

void ZeroOneAdam::synchronize() {
  if (local_steps_ == 0) return;
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  link_->mean(sum_);
  each_state([&](int group, size_t at, State& s) {
    const double rate = rates_[static_cast<size_t>(group)];
    const Array& m = s.arrays[kFirst].array;
    core::map_into<k::Div>(m, link_->part_of(sum_, at), Scalar(rate));
    if (m.numel() > 0)
      core::backend(m.device()).run(core::call::Copy{at_mean_[at], s.param.array()});
    move(group, s, keeps_[static_cast<size_t>(group)], rate);
  });
  run_batch();
  local_steps_ = 0;
  sum_ = {};
  at_mean_.clear();
}

bool ZeroOneAdam::gradients_finite() const {
  const bool mine = OptimizerOf::gradients_finite();
  return next_step() == Kind::variance ? mine : link_->all_say(mine);
}

optim::StateDict ZeroOneAdam::state_dict() const {
  check(synchronized(), "zero_one_adam: ranks have made ", local_steps_, " of ",
        number(kLocalInterval),
        " local steps, so each has parameters of its own; save after the last of them, or call "
        "synchronize() before");
  return OptimizerOf::state_dict();
}

void ZeroOneAdam::load_state_dict(const optim::StateDict& dict) {
  OptimizerOf::load_state_dict(dict);
  local_steps_ = 0;
  sum_ = {};
  at_mean_.clear();
  link_->reset_errors();
  link_->keep_gradients_local(next_step() != Kind::variance);
}

int64_t ZeroOneAdam::bytes_of_mean() { return link_->bits().bytes(); }

}  // namespace hero::dist
