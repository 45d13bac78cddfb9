#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/error.h>
#include <hero/core/io/sha256.h>
#include <hero/dist/average.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/parallel/mean_of_losses.h>
#include <hero/dist/parallel/pipeline_run.h>
#include <hero/dist/parallel/tied_gradients.h>
#include <hero/dist/pipeline.h>
#include <hero/optim/accumulator.h>

namespace hero::dist {
namespace {

// The text that must be the same on every rank.
std::string text_of(nn::PipelineModel& model, const PipelineOptions& options,
                    const std::vector<size_t>& begins) {
  std::string names;
  for (const auto& [name, slot] : model.root().slots()) {
    names += name + " " + to_string(whole_shape(slot->tensor)) + "\n";
  }
  std::string text = options.schedule.name() + " of " + std::to_string(options.micro_batches) +
                     " micro-batches" + (options.weigh_by_targets ? " by targets" : "") +
                     ", layers";
  for (const size_t begin : begins) text += " " + std::to_string(begin);
  return text + ", a module of hash " + sha256(std::as_bytes(std::span(names))).substr(0, 16);
}

std::vector<Tensor> micro_batches(const char* what, const Tensor& batch, int count) {
  check(batch.defined() && batch.ndim() > 0, "pipeline: ", what, " must be a batch of rows");
  const int64_t rows = batch.size(0) / count;
  check(rows > 0 && rows * count == batch.size(0), "pipeline: ", what, " has ", batch.size(0),
        " rows, which are not ", count, " equal micro-batches; pad the batch, or leave rows out");
  std::vector<Tensor> list;
  for (int i = 0; i < count; ++i) list.push_back(batch.slice(0, i * rows, (i + 1) * rows));
  return list;
}

std::vector<std::vector<Action>> actions_of(const PipelineOptions& options, int ranks,
                                            bool backward_too) {
  std::vector<std::vector<Action>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(options.schedule.actions(rank, ranks, options.micro_batches));
    if (backward_too) continue;
    std::erase_if(all.back(), [](const Action& a) { return a.kind != Action::Kind::forward; });
  }
  return all;
}

}  // namespace

struct Pipeline::State {
  State(nn::PipelineModel& model, const Communicator& pipe, const PipelineOptions& given)
      : options(given),
        parts({&model, pipe,
               stage_begins(model.layers(), pipe.size() * given.schedule.chunks(),
                            given.first_layers),
               given.device}),
        steps(actions_of(given, pipe.size(), true), given.schedule.chunks()),
        forwards(actions_of(given, pipe.size(), false), given.schedule.chunks()) {}

  Device computes_on() const;
  bool is_last() const { return parts.pipe.rank() + 1 == parts.pipe.size(); }
  MicroBatches divide(const Tensor& x, const Tensor* target) const;
  const std::vector<StageOutput>& outputs_for(const Tensor& x);
  std::vector<Tensor> run(const MessagePlan& plan, const MicroBatches& batches);
  std::vector<double> targets_of(const MicroBatches& batches) const;
  double mean_loss(const std::vector<Tensor>& losses, const std::vector<double>& targets) const;

  PipelineOptions options;
  PipelineParts parts;
  MessagePlan steps, forwards;
  std::vector<StageValue> values = {};
  std::vector<TiedGradient> tied = {};
  std::vector<StageOutput> outputs = {};
  std::string borders_of_what = {};  // the micro-batch that they are of
};

Pipeline::Pipeline(nn::PipelineModel& model, const Communicator& comm,
                   const PipelineOptions& options)
    : state_("pipeline", std::make_unique<State>(model, comm, options)) {
  same_on_all(comm, "pipeline: ranks make different ones",
              text_of(model, options, state_->parts.begins));
  state_->values = stage_values(model, state_->parts.begins, comm.size());
  keep_own_values(state_->values, comm, device_of(state_->values, comm, options.device));
  state_->tied = tied_gradients(state_->values, comm);
}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

MicroBatches Pipeline::State::divide(const Tensor& x, const Tensor* target) const {
  MicroBatches batches = {.x = micro_batches("x", x, options.micro_batches)};
  if (target && is_last()) batches.target = micro_batches("y", *target, options.micro_batches);
  return batches;
}

// Offloaded leaves do not lie where their units compute.
Device Pipeline::State::computes_on() const {
  for (const auto& replica : sharded_modules_of(values)) {
    for (const auto& unit : replica->units()) {
      if (unit->crosses_to_device()) return unit->device();
    }
  }
  return device_of(values, parts.pipe, options.device);
}

// Known from the micro-batch before, where that was alike.
const std::vector<StageOutput>& Pipeline::State::outputs_for(const Tensor& x) {
  StageDTypes dtypes;
  for (const auto& replica : sharded_modules_of(values)) {
    if (&replica->module() != &parts.model->root()) continue;
    dtypes = {replica->gathered_dtype(), replica->output_dtype()};
  }
  const auto text = [](std::optional<DType> dtype) { return dtype ? name(*dtype) : "own"; };
  std::string what = to_string(x.shape()) + " " + name(x.dtype()) + " " + text(dtypes.parameters) +
                     " " + text(dtypes.output);
  if (autocast_enabled()) what += std::string(" cast to ") + name(autocast_options().dtype);
  for (const StageValue& value : values) what += std::string(" ") + name(value.leaf().dtype());
  if (what != borders_of_what) {
    outputs = stage_outputs(*parts.model, parts.begins, values, x, dtypes);
    borders_of_what = std::move(what);
  }
  return outputs;
}

std::vector<Tensor> Pipeline::State::run(const MessagePlan& plan, const MicroBatches& batches) {
  parts.device = computes_on();
  const auto replicas = sharded_modules_of(values);
  KeepGathered keep(replicas);
  GradientSync sync(grad_enabled() ? replicas : std::vector<std::shared_ptr<ShardedModule>>(),
                    options.schedule.chunks());
  PipelineRun run(parts, batches, outputs_for(batches.x.front()),
                  options.schedule.splits_backward());
  run.run(plan, plan.receives(parts.pipe.rank()), sync);
  sync.end();
  keep.end();
  return run.results();
}

// Those of each micro-batch; none where all micro-batches weigh the same.
std::vector<double> Pipeline::State::targets_of(const MicroBatches& batches) const {
  std::vector<double> targets;
  if (!options.weigh_by_targets) return targets;
  for (const Tensor& target : batches.target) {
    targets.push_back(parts.model->target_count(target));
  }
  return targets;
}

// The last rank tells the others.
double Pipeline::State::mean_loss(const std::vector<Tensor>& losses,
                                  const std::vector<double>& targets) const {
  if (parts.pipe.backend_kind() == BackendKind::simulated) {
    parts.pipe.broadcast(Array::zeros({1}, kFloat64), parts.pipe.size() - 1, {.unit = "loss"});
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> of_each;
  for (const Tensor& loss : losses) of_each.push_back(loss.item());
  const Array mean = Array::full({1}, mean_of_losses(of_each, targets), kFloat64);
  parts.pipe.broadcast(mean, parts.pipe.size() - 1, {.unit = "loss"});
  return mean.item();
}

double Pipeline::step(const Tensor& x, const Tensor& y, const PipelineStepOptions& options) {
  const EnableGrad recorded;
  check(options.scale > 0.0 && std::isfinite(options.scale),
        "pipeline: the loss's scale must be positive: ", options.scale);
  MicroBatches batches = state_->divide(x, &y);
  batches.scale = options.scale;
  const std::vector<double> targets = state_->targets_of(batches);
  if (!targets.empty()) {
    const Communicator& data = state_->options.data;
    batches.weights =
        data.defined() ? target_weights(targets, data) : optim::target_weights(targets);
  }
  TiedGradientScope tied(state_->tied);
  const std::vector<Tensor> losses = state_->run(state_->steps, batches);
  tied.add_up();
  set_empty_gradients(state_->values, state_->parts.pipe.rank());
  return state_->mean_loss(losses, targets);
}

double Pipeline::loss(const Tensor& x, const Tensor& y) {
  const NoGrad unrecorded;
  const MicroBatches batches = state_->divide(x, &y);
  return state_->mean_loss(state_->run(state_->forwards, batches), state_->targets_of(batches));
}

Tensor Pipeline::operator()(const Tensor& x) {
  const NoGrad unrecorded;
  const std::vector<Tensor> outputs = state_->run(state_->forwards, state_->divide(x, nullptr));
  return state_->is_last() ? cat(outputs, 0) : Tensor();
}

Tensor Pipeline::generate(const Tensor& tokens, const nn::GenerateOptions& options) {
  auto* decoder = dynamic_cast<nn::PipelineDecoder*>(state_->parts.model);
  check(decoder != nullptr,
        "pipeline: generate() is for a decoder, such as nn::GPT and nn::Llama, and the model is a ",
        state_->parts.model->root().type_name());
  PipelineParts& parts = state_->parts;
  parts.device = state_->computes_on();
  const auto next = [&](const Tensor& fresh, nn::KeyValueCache& cache, const nn::TokenRows& rows,
                        Generator& generator) {
    const auto run_stage = [&](size_t begin, size_t end, const Tensor& x) {
      return decoder->run_layers_after(cache, begin, end, x);
    };
    const Tensor logits = run_stages(parts, state_->outputs_for(fresh), fresh, run_stage);
    const Tensor drawn = logits.defined()
                             ? nn::next_tokens(logits, rows, options, generator).to(tokens.device())
                             : Tensor(Array::empty({fresh.size(0), 1}, kInt64, tokens.device()));
    parts.pipe.broadcast(drawn.array(), parts.pipe.size() - 1, {.unit = "tokens"});
    return drawn;
  };
  return nn::generate(tokens, decoder->context_length(), options, next);
}

std::vector<Tensor> Pipeline::parameters() const {
  std::vector<Tensor> list;
  for (const StageValue& value : state_->values) {
    if (value.slots.front()->kind == nn::Slot::Kind::parameter) list.push_back(value.leaf());
  }
  return list;
}

std::pair<size_t, size_t> Pipeline::layers(int chunk) const {
  const int chunks = state_->options.schedule.chunks();
  check(chunk >= 0 && chunk < chunks, "pipeline: chunk ", chunk, " of ", chunks);
  const int stage = state_->parts.stage(chunk);
  return {state_->parts.begin(stage), state_->parts.begin(stage + 1)};
}

}  // namespace hero::dist
