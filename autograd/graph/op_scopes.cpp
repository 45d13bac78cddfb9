#include <optional>

#include <hero/autograd/graph/op_scopes.h>

namespace hero::detail {

constinit thread_local unsigned watching = 0;

struct Watcher::State {
  std::string op;  // the operation itself may be gone when its output is looked at
  std::vector<const Tensor*> inputs;
  std::vector<Tensor> cast;
  int64_t profiled = 0;
};

void Watcher::open(const char* op, CastRule rule, std::span<const Tensor*> inputs) {
  std::vector<Tensor> cast;
  if (watching & kWatchAutocast) cast = autocast_inputs(rule, inputs);
  state_ = new State{op, {}, std::move(cast), 0};
  for (size_t i = 0; i < state_->cast.size(); ++i) inputs[i] = &state_->cast[i];
  state_->inputs.assign(inputs.begin(), inputs.end());
  if (watching & kWatchProfile) state_->profiled = begin_profiled(op);
}

void Watcher::inspect(const Tensor& output) const {
  if (watching & kWatchAnomaly) look_at_output(state_->op.c_str(), state_->inputs, output);
}

void Watcher::close() {
  end_profiled(state_->profiled);
  delete state_;
}

struct WatchDerivative::State {
  std::optional<PlaceScope> place;
  int64_t profiled = 0;
};

void WatchDerivative::open(const detail::Node& node, const std::string* place) {
  state_ = new State;
  if (place != nullptr) state_->place.emplace(*place);
  if (watching & kWatchProfile) state_->profiled = begin_profiled(node.name());
}

void WatchDerivative::close() {
  end_profiled(state_->profiled);
  delete state_;
}

}  // namespace hero::detail
