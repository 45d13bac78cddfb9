#include <algorithm>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/optim/check_option.h>
#include <hero/optim/ema.h>

namespace hero::optim {

template class OptimizerOf<EMAOptions>;

void EMAOptions::check_values() const { check_fraction("ema", "decay", decay); }

std::vector<const char*> EMA::array_names(int) const { return {"average"}; }

// The "gradient" that a step reads is the parameter itself, which is averaged also without a
// gradient.
Array EMA::gradient_of(int param) const { return state(param).param.array(); }

void EMA::update(int group, State& state, const Array& /*grad*/) {
  check(!swapped(), "ema: the parameters are averages now; call swap() before step()");
  const EMAOptions& o = options(group);
  const double t = state.steps - 1.0;
  const double slow = o.warmup ? std::min(o.decay, (1.0 + t) / (10.0 + t)) : o.decay;
  const double decay = o.equal ? t / (1.0 + t) : slow;
  const Tensor average(state.arrays[0].array);
  const Tensor p = Tensor(state.param.array()).to(average.dtype());
  if (t == 0.0) {
    average.copy_(p);
  } else {
    average.mul_(decay).add_(p, 1.0 - decay);
  }
}

void EMA::check_group(const std::vector<Tensor>& /*params*/) const {
  check(!swapped(),
        "ema: add_param_group: the parameters are averages now; call swap() back before");
}

void EMA::swap() {
  const NoGrad no_grad;
  follow();
  const int count = group_end(groups() - 1);
  if (swapped()) {
    for (int i = 0; i < count; ++i) state(i).param.copy_(Tensor(state(i).scratch));
    for (int i = 0; i < count; ++i) state(i).scratch = {};
    averages_.reset();
    return;
  }
  for (int i = 0; i < count; ++i) {
    check(!state(i).arrays.empty(), "ema: there are no averages before the first step()");
  }
  const MemoryScope scope(MemoryTag::optimizer);
  for (int i = 0; i < count; ++i) state(i).scratch = state(i).param.array().clone();
  averages_.emplace(
      parameters(),
      ReplacedValues{.what = "is an average of optim::EMA now; end its scope, or swap() "
                             "back, before",
                     .can_save = true});
  for (int i = 0; i < count; ++i) state(i).param.copy_(Tensor(state(i).arrays[0].array));
}

// Which also stops a checkpointer that is given the parameters by functions of the program.
StateDict EMA::state_dict() const {
  check_own_values("ema", parameters(), ValueUse::save);
  return OptimizerOf::state_dict();
}

void EMA::load_state_dict(const StateDict& dict) {
  if (swapped()) follow();  // what the parameters were stays
  OptimizerOf::load_state_dict(dict);
}

}  // namespace hero::optim
