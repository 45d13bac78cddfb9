#include <cmath>

#include <hero/core/functions/map.h>
#include <hero/core/functions/update_step.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/optim/check_option.h>
#include <hero/optim/sgd.h>

namespace hero::optim {

namespace k = core::kernels;

template class OptimizerOf<SGDOptions>;

void SGDOptions::check_values() const {
  check_not_negative("sgd", "lr", lr);
  check_not_negative("sgd", "momentum", momentum);
  check(std::isfinite(dampening), "sgd: dampening must be finite: ", dampening);
  check_not_negative("sgd", "weight_decay", weight_decay);
  check(!nesterov || (momentum > 0.0 && dampening == 0.0),
        "sgd: nesterov needs momentum > 0 and dampening 0: momentum ", momentum, ", dampening ",
        dampening);
}

std::vector<const char*> SGD::array_names(int group) const {
  if (options(group).momentum == 0.0) return {};
  return {"momentum_buffer"};
}

void SGD::update(int group, State& state, const Array& grad) {
  const SGDOptions& o = options(group);
  const k::Seen<double> seen{o.maximize ? -1.0 : 1.0, o.weight_decay};
  const double first = state.just_made ? 1.0 : 0.0;
  if (o.momentum == 0.0) {
    run<k::SGD>({seen, o.lr}, state, grad);
  } else if (o.nesterov) {
    run<k::SGDMomentum<true>>({seen, o.lr, o.momentum, 1.0 - o.dampening, first}, state, grad);
  } else {
    run<k::SGDMomentum<false>>({seen, o.lr, o.momentum, 1.0 - o.dampening, first}, state, grad);
  }
}

template class OptimizerOf<NesterovLookaheadOptions>;

void NesterovLookaheadOptions::check_values() const {
  check_not_negative("nesterov_lookahead", "lr", lr);
  check_not_negative("nesterov_lookahead", "momentum", momentum);
}

std::vector<const char*> NesterovLookahead::array_names(int) const { return {"velocity"}; }

void NesterovLookahead::check_group(const std::vector<Tensor>& /*params*/) const {
  check(!looking(), "nesterov_lookahead: add_param_group() between lookahead() and step()");
}

void NesterovLookahead::lookahead() {
  check(!looking(), "nesterov_lookahead: lookahead() was called twice; call step() in between");
  const MemoryScope scope(MemoryTag::optimizer);
  follow();
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      prepare(group, s);
      const Array& param = s.param.array();
      s.scratch = param.to(core::state_dtype(param.dtype()));
      if (s.scratch.storage_ref() == param.storage_ref()) s.scratch = param.clone();
      core::map_into<k::Addcmul>(param, param, s.arrays[0].array, Scalar(1.0),
                                 Scalar(options(group).momentum));
    }
  }
  ahead_.emplace(parameters(),
                 ReplacedValues{.what = "is where lookahead() has moved it; call step() before",
                                .can_step = true});
}

void NesterovLookahead::step() {
  check(looking(),
        "nesterov_lookahead: step() without lookahead(); call lookahead() before the forward pass, "
        "so that gradients are taken there");
  for (int i = 0; i < group_end(groups() - 1); ++i) {
    State& s = state(i);
    s.scratch = s.scratch.to(core::state_dtype(s.param.dtype()));
  }
  Optimizer::step();
  for (int group = 0; group < groups(); ++group) {
    for (int i = group_begin(group); i < group_end(group); ++i) {
      State& s = state(i);
      const Array& param = s.param.array();
      if (!s.param.grad().defined()) {
        core::backend(param.device()).run(core::call::Copy{s.scratch, param});
        param.storage().bump_version();
      }
      s.scratch = {};
    }
  }
  ahead_.reset();
}

void NesterovLookahead::update(int group, State& state, const Array& grad) {
  const NesterovLookaheadOptions& o = options(group);
  const Array* const states[] = {&state.arrays[0].array, &state.scratch};
  run<k::NesterovLookahead>({o.maximize ? -1.0 : 1.0, o.lr, o.momentum}, state, grad, states);
}

StateDict NesterovLookahead::state_dict() const {
  check(!looking(),
        "nesterov_lookahead: state_dict() between lookahead() and step(): the parameters are not "
        "where they belong; call it after step()");
  return Optimizer::state_dict();
}

void NesterovLookahead::load_state_dict(const StateDict& dict) {
  check(!looking(), "nesterov_lookahead: load_state_dict() between lookahead() and step()");
  Optimizer::load_state_dict(dict);
}

}  // namespace hero::optim
