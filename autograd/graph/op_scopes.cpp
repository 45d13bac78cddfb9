#include <optional>

#include <hero/autograd/graph/op_scopes.h>

namespace hero::detail {

constinit thread_local unsigned open_scopes = 0;

struct OpInterceptor::State {
  std::string op;  // the operation itself may be gone when its output is looked at
  std::vector<const Tensor*> inputs;
  std::vector<Tensor> cast;
  int64_t profiled = 0;
};

void OpInterceptor::open(const char* op, AutocastRule rule, std::span<const Tensor*> inputs) {
  std::vector<Tensor> cast;
  if (open_scopes & kAutocastScope) cast = autocast_inputs(rule, inputs);
  state_ = new State{op, {}, std::move(cast), 0};
  for (size_t i = 0; i < state_->cast.size(); ++i) inputs[i] = &state_->cast[i];
  state_->inputs.assign(inputs.begin(), inputs.end());
  if (open_scopes & kProfileScope) state_->profiled = begin_profiled(op);
}

void OpInterceptor::inspect(const Tensor& output) const {
  if (open_scopes & kAnomalyScope) look_at_output(state_->op.c_str(), state_->inputs, output);
}

void OpInterceptor::close() {
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
  if (open_scopes & kProfileScope) state_->profiled = begin_profiled(node.name());
}

void WatchDerivative::close() {
  end_profiled(state_->profiled);
  delete state_;
}

}  // namespace hero::detail
