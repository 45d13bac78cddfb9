#include <algorithm>
#include <cmath>
#include <utility>

#include <hero/core/functions/each_group.h>
#include <hero/core/functions/exact_sum.h>
#include <hero/core/functions/update_step.h>
#include <hero/optim/check_option.h>
#include <hero/optim/lamb.h>
#include <hero/optim/rank_groups.h>

namespace hero::optim {

namespace k = core::kernels;

namespace {

// Bytes of directions that are stepped in one batch: on a GPU enough work to hide the launches, on
// the CPU few enough to stay in its caches.
int64_t batch_bytes(Device device) {
  return device.type == DeviceType::cpu ? int64_t{64} << 10 : int64_t{16} << 20;
}

}  // namespace

template class OptimizerOf<LAMBOptions>;

void LAMBOptions::check_values() const { check_adam_options("lamb", *this); }

std::vector<const char*> LAMB::array_names(int) const { return {"exp_avg", "exp_avg_sq"}; }

void LAMB::step() {
  directed_.clear();  // of a step that ended in an error
  held_ = 0;
  Optimizer::step();
}

void LAMB::update(int group, State& state, const Array& grad) {
  const LAMBOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const Array& param = state.param.array();
  state.scratch = Array::empty(param.shape(), core::state_dtype(param.dtype()), param.device());
  const Array* const states[] = {&state.arrays[0].array, &state.arrays[1].array, &state.scratch};
  run<k::LambDirection>({o.maximize ? -1.0 : 1.0,
                         {beta1, 1.0 - beta1, beta2, 1.0 - beta2},
                         1.0 - std::pow(beta1, state.steps),
                         1.0 - std::pow(beta2, state.steps),
                         o.eps,
                         o.weight_decay},
                        state, grad, states);
  directed_.push_back({&state, o.lr});
  if (group_of(state.param)) return;
  held_ += state.scratch.nbytes();
  if (held_ >= batch_bytes(param.device())) run_batch();
}

void LAMB::batch_done() {
  const auto shards =
      std::stable_partition(directed_.begin(), directed_.end(),
                            [](const Directed& d) { return !group_of(d.state->param); });
  take({directed_.begin(), shards});
  directed_.erase(directed_.begin(), shards);
  held_ = 0;
}

void LAMB::step_done() { take(std::exchange(directed_, {})); }

void LAMB::take(std::vector<Directed> directed) {
  const auto place = [](const Directed& d) {
    return std::pair(group_of(d.state->param), d.state->param.device());
  };
  core::each_group(std::move(directed), place, [&](const auto& of, std::span<const Directed> list) {
    std::vector<Array> vectors;  // param and direction, one after the other
    vectors.reserve(2 * list.size());
    for (const Directed& d : list) {
      vectors.push_back(d.state->param.array());
      vectors.push_back(d.state->scratch);
    }
    const Array words = core::words_of_squares(vectors);
    if (of.first) of.first->add_up(words);
    const Array norms = core::roots_of_words(words);
    for (int64_t i = 0; const Directed& d : list) {
      const Array& param = d.state->param.array();
      const Array both = norms.slice(0, 2 * i, 2 * i + 2);
      d.state->scratch = d.state->scratch.to(param.dtype());
      steps_.add<k::LambStep>({d.lr}, param, d.state->scratch, {}, &both);
      ++i;
    }
    steps_.run();
    for (const Directed& d : list) d.state->scratch = {};
  });
}

}  // namespace hero::optim
