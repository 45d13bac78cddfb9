#include <utility>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/error.h>
#include <hero/core/profile/observer.h>
#include <hero/dist/parallel/pipeline_run.h>
#include <hero/dist/simulation.h>

namespace hero::dist {
namespace {

using Kind = Action::Kind;

const char* unit_of(Kind kind) { return kind == Kind::forward ? "activations" : "gradients"; }

}  // namespace

Tensor run_stages(const PipelineParts& parts, const std::vector<StageOutput>& outputs,
                  const Tensor& x,
                  const std::function<Tensor(size_t, size_t, const Tensor&)>& run_stage) {
  const int ranks = parts.pipe.size(), me = parts.pipe.rank();
  Tensor y;  // what the stage before made, where it is here
  for (int stage = 0; stage < parts.stages(); ++stage) {
    if (stage % ranks != me) continue;
    if (stage > 0 && (stage - 1) % ranks != me) {
      const StageOutput& output = outputs[static_cast<size_t>(stage) - 1];
      const Array input = Array::empty(output.shape, output.dtype, parts.device);
      parts.pipe.recv(input, (stage - 1) % ranks, {.unit = unit_of(Kind::forward)});
      y = Tensor(input);
    }
    const Tensor in = stage == 0 ? x : y;
    y = parts.model->root().run_fused(in, [&](const Tensor& input) {
      return run_stage(parts.begin(stage), parts.begin(stage + 1), input);
    });
    if (stage + 1 < parts.stages() && (stage + 1) % ranks != me) {
      parts.pipe.send(y.array().contiguous(), (stage + 1) % ranks,
                      {.unit = unit_of(Kind::forward)});
    }
  }
  return me == (parts.stages() - 1) % ranks ? y : Tensor();
}

PipelineRun::PipelineRun(const PipelineParts& parts, const MicroBatches& batches,
                         const std::vector<StageOutput>& outputs, bool splits)
    : parts_(parts),
      batches_(batches),
      outputs_(outputs),
      rank_(parts.pipe.rank()),
      splits_(splits) {}

void PipelineRun::run(const MessagePlan& plan, const std::vector<std::vector<Message>>& receives,
                      GradientSync& sync) {
  const std::vector<Action>& actions = plan.actions(rank_);
  for (size_t i = 0; i < actions.size(); ++i) {
    simulated_part("");
    for (const Message& message : receives[i]) post(message);
    release_sent();
    const Action& action = actions[i];
    if (action.kind == (splits_ ? Kind::weights : Kind::backward)) {
      tell(sync, action, i + 1 == actions.size());
    }
    constexpr const char* parts[] = {"stage forward", "stage backward", "stage weights"};
    const ProfileScope profiled(parts[static_cast<size_t>(action.kind)]);
    simulated_part(to_string(action));
    if (action.kind == Kind::forward) forward(plan, action);
    if (action.kind == Kind::backward) backward(plan, action);
    if (action.kind == Kind::weights) weights(action);
  }
  simulated_part("");
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
}

void PipelineRun::post(const Message& message) {
  const Action& action = message.action;
  const int stage = parts_.stage(action.chunk);
  const bool is_forward = action.kind == Kind::forward;
  const StageOutput& output = outputs_[static_cast<size_t>(is_forward ? stage - 1 : stage)];
  Received& received = arriving_[key(action)];
  received.array = Array::empty(output.shape, output.dtype, parts_.device);
  received.work =
      parts_.pipe.recv(received.array, message.from, {.async = true, .unit = unit_of(action.kind)});
}

Array PipelineRun::take(const Action& action) {
  auto node = arriving_.extract(key(action));
  if (node.empty()) fail("pipeline: nothing was received for ", to_string(action));
  node.mapped().work.wait();
  return node.mapped().array;
}

// It runs inside the hooks of the root module, which gather the root's own unit.
Tensor PipelineRun::run_stage(int stage, const Tensor& x, int micro) {
  nn::PipelineModel& model = *parts_.model;
  const bool last = stage + 1 == parts_.stages();
  return model.root().run_fused(x, [&](const Tensor& in) {
    if (!last || batches_.target.empty()) {
      return model.run_layers(parts_.begin(stage), parts_.begin(stage + 1), in);
    }
    return model.loss_from(parts_.begin(stage), in, batches_.target[static_cast<size_t>(micro)]);
  });
}

// The gradients of the mean over all micro-batches are added up; halves are scaled in float32.
Tensor PipelineRun::share_of_loss(const Tensor& loss, int micro) const {
  const Tensor share = loss / static_cast<double>(batches_.x.size());
  const double factor =
      batches_.scale *
      (batches_.weights.empty() ? 1.0 : batches_.weights[static_cast<size_t>(micro)]);
  if (factor == 1.0) return share;
  return (is_half(share.dtype()) ? share.to(kFloat32) : share) * factor;
}

void PipelineRun::check_border(int stage, const Tensor& y) const {
  const StageOutput& output = outputs_[static_cast<size_t>(stage)];
  check(y.shape() == output.shape && y.dtype() == output.dtype, "pipeline: stage ", stage,
        " gives ", y.dtype(), " ", y.shape(), ", and on meta it gave ", output.dtype, " ",
        output.shape, "; shapes must follow from the input's shape alone");
}

void PipelineRun::forward(const MessagePlan& plan, const Action& action) {
  const int stage = parts_.stage(action.chunk);
  const Tensor x = plan.has_input(rank_, action)
                       ? Tensor(take(action), grad_enabled())
                       : batches_.x[static_cast<size_t>(action.micro)].detach();
  Tensor y = run_stage(stage, x, action.micro);
  if (plan.has_output(rank_, action)) {
    check_border(stage, y);
    hand_on(plan, action, y.array(), y);
  } else {
    results_.push_back(y.detach());
    if (grad_enabled()) y = share_of_loss(y, action.micro);
  }
  if (!grad_enabled()) return;
  flights_[{Kind::backward, action.chunk, action.micro}] = {x, y};
}

void PipelineRun::backward(const MessagePlan& plan, const Action& action) {
  const Flight flight = std::move(flights_.extract(key(action)).mapped());
  const Tensor given = plan.has_input(rank_, action) ? Tensor(take(action)) : Tensor();
  const bool wanted = plan.has_output(rank_, action);
  const Tensor gradient = gradient_of_input(action, flight, given);
  check(!wanted || gradient.defined(), "pipeline: the output of stage ", parts_.stage(action.chunk),
        " does not depend on its input; cut the model elsewhere");
  if (wanted) hand_on(plan, action, gradient.array(), {});
}

// The first stage has no input with a gradient: nobody waits for its backward, which runs whole
// with the gradients of its weights, where a schedule splits it.
Tensor PipelineRun::gradient_of_input(const Action& action, const Flight& flight,
                                      const Tensor& gradient) {
  if (gradient.defined() && !flight.output.requires_grad()) return {};
  const std::vector<Tensor> outputs = {flight.output}, gradients = {gradient};
  if (!splits_) {
    hero::backward(outputs, gradients);
    return flight.input.grad();
  }
  std::vector<Tensor> inputs;
  if (flight.input.requires_grad()) inputs.push_back(flight.input);
  const std::vector<Tensor> found =
      grad_first(outputs, inputs, rests_[{Kind::weights, action.chunk, action.micro}],
                 {.grad_outputs = gradients, .allow_unused = true});
  return found.empty() ? Tensor() : found.front();
}

void PipelineRun::weights(const Action& action) {
  auto rest = rests_.extract(key(action));
  if (!rest.empty()) rest.mapped().run();  // nothing is there of a stage without parameters
}

// Backwards of a chunk run in the order of micro-batches.
void PipelineRun::tell(GradientSync& sync, const Action& action, bool last) const {
  if (last) return sync.average_all();
  if (action.micro + 1 < static_cast<int>(batches_.x.size())) return sync.add_up();
  const int stage = parts_.stage(action.chunk);
  std::vector<nn::Module*> modules;
  for (size_t layer = parts_.begin(stage); layer < parts_.begin(stage + 1); ++layer) {
    for (nn::Module* module : parts_.model->modules_of(layer)) modules.push_back(module);
  }
  sync.average(modules);
}

void PipelineRun::hand_on(const MessagePlan& plan, const Action& action, const Array& array,
                          const Tensor& output) {
  const Message message = plan.output(rank_, action);
  if (message.to == rank_) {
    arriving_[key(message.action)].array = array;
    return;
  }
  Sent& sent = sent_.emplace_back();
  sent.array = array.contiguous();
  sent.output = output;
  sent.work =
      parts_.pipe.send(sent.array, message.to, {.async = true, .unit = unit_of(action.kind)});
}

// [note: outputs that were sent] Backward begins at an output and asks for its shape alone. So when
// it has arrived at the next stage its bytes go, unless somebody else holds them: a node that saved
// them, or a view.
void PipelineRun::release_sent() {
  sent_.remove_if([](Sent& sent) {
    if (!sent.work.test()) return false;
    sent.array = {};
    if (!sent.output.defined() || !sent.output.requires_grad()) return true;
    // If the output is a view, it need not know its base any more: it is not written to.
    sent.output.impl()->base = {};
    core::Storage& storage = sent.output.array().storage();
    if (storage.unique()) storage.release();
    return true;
  });
}

}  // namespace hero::dist
