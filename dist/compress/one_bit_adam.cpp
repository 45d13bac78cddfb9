#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/profile/observer.h>
#include <hero/dist/compress/one_bit_link.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/check_option.h>

namespace hero::dist {

namespace k = core::kernels;

void OneBitAdamOptions::check_values() const {
  optim::check_adam_options("one_bit_adam", *this);
  check(freeze_step > 0, "one_bit_adam: freeze_step must be positive: ", freeze_step);
  check(bucket_elements > 0 && bucket_elements % 32 == 0,
        "one_bit_adam: bucket_elements must be a positive multiple of 32: ", bucket_elements);
}

OneBitAdam::OneBitAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
                       const OneBitAdamOptions& options)
    : OneBitAdam(ddp, std::vector<Group>{{params, options}}) {}

OneBitAdam::OneBitAdam(const DataParallel& ddp, const std::vector<Group>& groups)
    : OptimizerOf("one_bit_adam", groups),
      OneBitErrors("one_bit_adam", ddp, parameters(), options().bucket_elements) {
  for (int group = 1; group < this->groups(); ++group) {
    check(options(group).freeze_step == options().freeze_step, "one_bit_adam: groups freeze at ",
          "steps ", options().freeze_step, " and ", options(group).freeze_step,
          "; all momenta travel together");
  }
}

void OneBitAdam::check_group(const std::vector<Tensor>& /*params*/) const {
  fail(
      "one_bit_adam: add_param_group: the bits of all parameters are sent as one vector; make "
      "another "
      "optimizer of all of them");
}

std::vector<const char*> OneBitAdam::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }
std::vector<const char*> OneBitAdam::number_names() const { return {"variance_steps"}; }

bool OneBitAdam::frozen() const {
  double most = 0.0;
  for (int i = 0; i < group_end(groups() - 1); ++i) most = std::max(most, state(i).steps);
  return most >= static_cast<double>(options().freeze_step);
}

void OneBitAdam::update(int group, State& state, const Array& grad) {
  const OneBitAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  state.numbers[0] = state.steps;
  run<k::Adam>({{{1.0, 0.0},
                 {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                 1.0 - o.lr * o.weight_decay,
                 o.lr / (1.0 - std::pow(beta1, state.steps)),
                 std::sqrt(1.0 - std::pow(beta2, state.steps)),
                 o.eps}},
               state, grad);
}

void OneBitAdam::step() {
  link_->check_fits(parameters());
  follow();
  frozen() ? step_frozen() : OptimizerOf::step();
  link_->keep_gradients_local(frozen());
}

void OneBitAdam::step_frozen() {
  const ProfileScope::Step profiled("optimizer step");
  const NoGrad no_grad;
  const MemoryScope scope(MemoryTag::optimizer);
  link_->check_finite(parameters());
  const Array momenta = link_->flat();
  for (int group = 0; group < groups(); ++group) {
    const OneBitAdamOptions& o = options(group);
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      prepare(group, s);
      const Array mean = link_->part_of(momenta, static_cast<size_t>(i));
      const Tensor grad = s.param.grad();
      const core::Operand g =
          grad.defined() ? core::Operand(grad.array()) : core::Operand(Scalar(0.0));
      core::map_into<k::Lerp>(mean, s.arrays[0].array, g, Scalar(1.0 - o.betas[0]));
    }
  }
  link_->mean(momenta);
  for (int group = 0; group < groups(); ++group) {
    const OneBitAdamOptions& o = options(group);
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      s.steps += 1.0;
      s.arrays[0].array = link_->part_of(momenta, static_cast<size_t>(i));
      const Array& param = s.param.array();
      const double root = std::sqrt(1.0 - std::pow(o.betas[1], std::max(s.numbers[0], 1.0)));
      run<k::FrozenAdam>(
          {1.0 - o.lr * o.weight_decay, o.lr / (1.0 - std::pow(o.betas[0], s.steps)), root, o.eps},
          s, param);
    }
  }
  run_batch();
}

bool OneBitAdam::gradients_finite() const {
  const bool mine = OptimizerOf::gradients_finite();
  return frozen() ? link_->all_say(mine) : mine;
}

void OneBitAdam::load_state_dict(const optim::StateDict& dict) {
  OptimizerOf::load_state_dict(dict);
  link_->reset_errors();
  link_->keep_gradients_local(frozen());
}

int64_t OneBitAdam::bytes_of_step() {
  return link_->bits().bytes() + 8 * (link_->comm().size() - 1);
}

int64_t OneBitAdam::still_elements() const {
  if (!frozen()) return 0;
  int64_t still = 0;
  for (int i = 0; i < group_end(groups() - 1); ++i) {
    const State& s = state(i);
    if (s.arrays.empty()) {
      still += s.param.numel();
    } else {
      still += static_cast<int64_t>(
          core::reduce(core::ReduceKind::sum, (Tensor(s.arrays[1].array) == 0.0).array().to(kInt64))
              .item());
    }
  }
  return still;
}

}  // namespace hero::dist
