#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/profile/observer.h>
#include <hero/dist/compress/one_bit_link.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/check_option.h>

namespace hero::dist {

namespace k = core::kernels;

namespace {

// Indices of a state's arrays and numbers.
enum LambArray : uint8_t { kMean, kSquare, kFreshSquare };
enum LambNumber : uint8_t { kSquareSteps, kCoefficient, kSeen, kScale, kFactor };

double norm_of(const Array& x) {
  core::ExactSum sum;
  sum.add_squares(x);
  return sum.root();
}

}  // namespace

void OneBitLAMBOptions::check_values() const {
  constexpr const char* kName = "one_bit_lamb";
  optim::check_adam_options(kName, *this);
  check(freeze_step > 0, kName, ": freeze_step must be positive: ", freeze_step);
  check(bucket_elements > 0 && bucket_elements % 32 == 0, kName,
        ": bucket_elements must be a positive multiple of 32: ", bucket_elements);
  check(min_coeff > 0.0 && min_coeff <= max_coeff, kName,
        ": 0 < min_coeff <= max_coeff must hold: ", min_coeff, ", ", max_coeff);
  check(factor_min > 0.0 && factor_min <= factor_max, kName,
        ": 0 < factor_min <= factor_max must hold: ", factor_min, ", ", factor_max);
  optim::check_fraction(kName, "coeff_beta", coeff_beta);
  optim::check_fraction(kName, "factor_threshold", factor_threshold);
}

OneBitLAMB::OneBitLAMB(const DataParallel& ddp, const std::vector<Tensor>& params,
                       const OneBitLAMBOptions& options)
    : OneBitLAMB(ddp, std::vector<Group>{{params, options}}) {}

OneBitLAMB::OneBitLAMB(const DataParallel& ddp, const std::vector<Group>& groups)
    : OptimizerOf("one_bit_lamb", groups),
      OneBitErrors("one_bit_lamb", ddp, parameters(), options().bucket_elements) {
  for (int group = 1; group < this->groups(); ++group) {
    check(options(group).freeze_step == options().freeze_step,
          "one_bit_lamb: groups freeze at steps ", options().freeze_step, " and ",
          options(group).freeze_step, "; all momenta travel together");
  }
}

void OneBitLAMB::check_group(const std::vector<Tensor>& /*params*/) const {
  fail(
      "one_bit_lamb: add_param_group: the bits of all parameters are sent as one vector; make "
      "another "
      "optimizer of all of them");
}

std::vector<const char*> OneBitLAMB::array_names(int) const {
  return {"exp_avg", "exp_avg_sq", "exp_avg_sq_fresh"};
}
std::vector<const char*> OneBitLAMB::number_names() const {
  return {"variance_steps", "lamb_coeff", "lamb_seen", "scaling_coeff", "last_factor"};
}
double OneBitLAMB::first_value(int, const char* name) const {
  return std::string_view(name) == "last_factor" ? 1.0 : 0.0;
}

bool OneBitLAMB::frozen() const {
  double most = 0.0;
  for (int i = 0; i < group_end(groups() - 1); ++i) most = std::max(most, state(i).steps);
  return most >= static_cast<double>(options().freeze_step);
}

void OneBitLAMB::step() {
  directed_.clear();  // of a step that ended in an error
  link_->check_fits(parameters());
  follow();
  if (frozen()) {
    step_frozen();
  } else {
    OptimizerOf::step();
    if (frozen()) freeze();
  }
  link_->keep_gradients_local(frozen());
}

void OneBitLAMB::update(int group, State& state, const Array& grad) {
  const OneBitLAMBOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const Array& param = state.param.array();
  state.numbers[kSquareSteps] = state.steps;
  state.scratch = Array::empty(param.shape(), kFloat32, param.device());
  const Array* const states[] = {&state.arrays[kMean].array, &state.arrays[kSquare].array,
                                 &state.scratch};
  run<k::LambDirection>({1.0,
                         {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                         1.0 - std::pow(beta1, state.steps),
                         1.0 - std::pow(beta2, state.steps),
                         o.eps,
                         o.weight_decay},
                        state, grad, states);
  directed_.emplace_back(group, &state);
}

// Along the directions of a warm-up step.
void OneBitLAMB::step_done() {
  core::UpdateBatch steps;
  for (const auto& [group, state] : directed_) {
    const OneBitLAMBOptions& o = options(group);
    const Array& param = state->param.array();
    const double size = norm_of(param), length = norm_of(state->scratch);
    double coefficient = 1.0;
    if (size > 0.0 && length > 0.0) {
      coefficient = std::clamp(size / length, o.min_coeff, o.max_coeff);
      double& average = state->numbers[kCoefficient];
      average = o.coeff_beta * average + (1.0 - o.coeff_beta) * coefficient;
      state->numbers[kSeen] += 1.0;
    }
    const Array norms = Array::from(std::vector<double>{coefficient, 1.0}, {2}).to(param.device());
    state->scratch = state->scratch.to(param.dtype());
    steps.add<k::LambStep>({o.lr}, param, state->scratch, {}, &norms);
    steps.run();
    state->scratch = {};
  }
}

// What frozen steps take from the warm-up.
void OneBitLAMB::freeze() {
  std::vector<double> sizes;
  double all = 0.0;
  const int count = group_end(groups() - 1);
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      prepare(group, s);
      s.steps = std::max(s.steps, 1.0);
      s.arrays[kFreshSquare].array = s.arrays[kSquare].array.clone();
      const auto n = static_cast<double>(std::max<int64_t>(s.param.numel(), 1));
      sizes.push_back(norm_of(s.arrays[kMean].array) / std::sqrt(n));
      all += sizes.back();
    }
  }
  for (int i = 0; i < count; ++i) {
    const double size = sizes[static_cast<size_t>(i)];
    state(i).numbers[kScale] = size > 0.0 ? all / count / size : 1.0;
  }
}

void OneBitLAMB::step_frozen() {
  const ProfileScope::Step profiled("optimizer step");
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  link_->check_finite(parameters());
  const Array momenta = link_->flat();
  const int count = group_end(groups() - 1);
  for (int group = 0; group < groups(); ++group) {
    const double rest = 1.0 - options(group).betas[0];
    for (int i = group_begin(group); i < group_end(group); ++i) {
      const State& s = state(i);
      const Array mean = link_->part_of(momenta, static_cast<size_t>(i));
      const Tensor grad = s.param.grad();
      const core::Operand g =
          grad.defined() ? core::Operand(grad.array()) : core::Operand(Scalar(0.0));
      core::map_into<k::Lerp>(mean, s.arrays[kMean].array, g, Scalar(rest));
      core::map_into<k::Mul>(mean, mean, Scalar(s.numbers[kScale]));
    }
  }
  link_->mean(momenta);
  for (int i = 0; i < count; ++i) {
    State& s = state(i);
    const Array mean = link_->part_of(momenta, static_cast<size_t>(i));
    core::map_into<k::Div>(mean, mean, Scalar(s.numbers[kScale]));
    const Tensor moves = Tensor(s.arrays[kSquare].array) > 0.0;
    core::map_into<k::Where>(mean, moves.array(), mean, Scalar(0.0));
  }
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      s.steps += 1.0;
      const Array before =
          std::exchange(s.arrays[kMean].array, link_->part_of(momenta, static_cast<size_t>(i)));
      if (s.param.numel() > 0) step_along(group, s, before);
    }
  }
}

void OneBitLAMB::step_along(int group, State& s, const Array& before) {
  const OneBitLAMBOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const Tensor m(s.arrays[kMean].array), v(s.arrays[kSquare].array);
  const Tensor fresh(s.arrays[kFreshSquare].array), p(s.param.array());
  const Tensor gradient = (m - Tensor(before) * beta1) / (1.0 - beta1);
  fresh.mul_(beta2).add_(square(gradient) * (1.0 - beta2));
  const double frozen = std::sqrt(1.0 - std::pow(beta2, std::max(s.numbers[kSquareSteps], 1.0)));
  const double now = std::sqrt(1.0 - std::pow(beta2, s.steps));
  const Tensor denominator = sqrt(v) / frozen + o.eps;
  const Tensor plain = m / (1.0 - std::pow(beta1, s.steps)) / denominator;
  double factor = amax(denominator / (sqrt(fresh) / now + o.eps)).item();
  Tensor direction = plain;
  if (o.weight_decay > 0.0) {
    direction = plain + p.to(kFloat32) * o.weight_decay;
    const double length = norm_of(direction.array());
    const double share = length > 0.0 ? std::min(1.0, norm_of(plain.array()) / length) : 1.0;
    factor = factor * share + (1.0 - share);
  }
  double& last = s.numbers[kFactor];
  factor = std::clamp(factor, o.factor_min, o.factor_max);
  last = std::clamp(factor, last * (1.0 - o.factor_threshold), last * (1.0 + o.factor_threshold));
  const double seen = s.numbers[kSeen];
  const double coefficient =
      seen > 0.0 ? s.numbers[kCoefficient] / (1.0 - std::pow(o.coeff_beta, seen)) : 1.0;
  const Tensor moved = direction * (o.lr * coefficient * last);
  core::map_into<k::Sub>(s.param.array(), s.param.array(), moved.array());
}

bool OneBitLAMB::gradients_finite() const {
  const bool mine = OptimizerOf::gradients_finite();
  return frozen() ? link_->all_say(mine) : mine;
}

void OneBitLAMB::load_state_dict(const optim::StateDict& dict) {
  OptimizerOf::load_state_dict(dict);
  link_->reset_errors();
  link_->keep_gradients_local(frozen());
}

int64_t OneBitLAMB::bytes_of_step() {
  return link_->bits().bytes() + 8 * (link_->comm().size() - 1);
}

}  // namespace hero::dist
