#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <ostream>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/kernels/clip_norm.h>
#include <hero/dist/average.h>
#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/parallel/mean_of_losses.h>
#include <hero/dist/pipeline.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/trainer.h>
#include <hero/dist/trainer/loss_scaling.h>
#include <hero/dist/trainer/optimizers.h>
#include <hero/dist/trainer/same_config.h>
#include <hero/dist/trainer/trainer_report.h>
#include <hero/dist/zero.h>
#include <hero/nn/parallel_form.h>
#include <hero/optim/clip.h>
#include <hero/optim/grad_scaler.h>

namespace hero::dist {

namespace {

int replicas_in(const Config& config, const Communicator& world) {
  const int others = config.tensor * config.pipe;
  check(world.size() % others == 0, "trainer: \"tensor\" ", config.tensor, " x \"pipe\" ",
        config.pipe, " does not divide ", world.size(), " ranks");
  return world.size() / others;
}

Mesh mesh_of(const Config& config, const Communicator& world) {
  check_same_config(config, world);
  const int tensor = config.tensor, pipe = config.pipe, shards = config.zero.shard_group_size;
  const int data = replicas_in(config, world);
  if (shards == 0) return Mesh(world, {{"pipe", pipe}, {"data", data}, {"tensor", tensor}});
  check(data % shards == 0, "trainer: \"mics_shard_size\" is ", shards, ", which does not divide ",
        data, " data ranks");
  return Mesh(
      world, {{"pipe", pipe}, {"replicate", data / shards}, {"shard", shards}, {"tensor", tensor}});
}

// The codecs of ZeRO++: weights in int8, gradients in int4.
Quantize quantize_of(const Config::Zero& zero) {
  Quantize quantize;
  if (zero.quantized_weights) quantize.weights = core::Codec::int8;
  if (zero.quantized_gradients) quantize.gradients = core::Codec::int4;
  quantize.secondary = zero.secondary_group_size > 0;
  quantize.ranks_of_host = std::max(zero.secondary_group_size, 1);
  return quantize;
}

// The file of a rank, with room for its shards and its optimizer's states, of which each takes
// whole blocks; null where nothing lies in one.
std::shared_ptr<core::SwapFile> file_of(const Config& config, nn::Module& model, const Mesh& mesh,
                                        const std::string& folder, bool states) {
  if (folder.empty()) return nullptr;
  constexpr int64_t kStates = 4;  // a master and at most three more
  const int shards =
      config.zero.shard_group_size > 0 ? config.zero.shard_group_size : mesh["data"].size();
  int64_t bytes = core::SwapFile::kBlock;
  for (const Tensor& leaf : model.parameters()) {
    const int64_t own = leaf.numel() / shards + 32;  // with gaps, and what makes parts equal
    bytes += own * std::max<int64_t>(item_size(leaf.dtype()), 4) + core::SwapFile::kBlock;
  }
  if (states) bytes *= kStates;
  const bool planned = mesh.world().backend_kind() == BackendKind::simulated;
  return std::make_shared<core::SwapFile>(folder,
                                          core::SwapOptions{.bytes = bytes, .planned = planned});
}

DataParallel put_on(const Config& config, nn::Module& model, const Mesh& mesh,
                    const TrainerOptions& options) {
  const Config::Zero& zero = config.zero;
  const auto shards = file_of(config, model, mesh, zero.parameters_folder, false);
  const Offload offload = {.optimizer = zero.offload_optimizer || !zero.states_folder.empty(),
                           .parameters = zero.offload_parameters,
                           .disk = shards.get(),
                           .own_disk = shards};
  const int64_t bucket = 4 * zero.bucket_elements;
  if (zero.stage == 0) {
    return DDP(model, mesh["data"],
               {.find_unused_parameters = zero.find_unused_parameters, .order = config.order});
  }
  const Quantize quantize = quantize_of(zero);
  if (zero.shard_group_size == 0 && (zero.stage < 3 || !options.unit)) {
    ZeROOptions strategy = {.stage = zero.stage,
                            .reshard_after_forward = zero.reshard,
                            .prefetch = zero.prefetch,
                            .find_unused_parameters = zero.find_unused_parameters,
                            .order = config.order,
                            .offload = offload,
                            .quantize = quantize};
    if (bucket > 0) strategy.bucket_bytes = bucket;
    return ZeRO(model, mesh["data"], strategy);
  }
  const FSDPOptions strategy = {.unit = options.unit ? options.unit : each_with_parameters(),
                                .reshard_after_forward = zero.reshard,
                                .prefetch = zero.prefetch,
                                .sync_module_states = true,
                                .device = options.device,
                                .order = config.order,
                                .offload = offload,
                                .quantize = quantize};
  if (zero.shard_group_size > 0)
    return fully_shard(model, mesh.sub({"replicate", "shard"}), strategy);
  return fully_shard(model, mesh["data"], strategy);
}

nn::PipelineModel& pipeline_model_of(nn::Module& model, const char* what) {
  auto* pipeline_model = dynamic_cast<nn::PipelineModel*>(&model);
  check(pipeline_model != nullptr, "trainer: ", what,
        " is for an nn::PipelineModel, as nn::GPT is, and the module is a ", model.type_name());
  return *pipeline_model;
}

// As a plan cuts it: as many blocks on every stage, the embedding with the first one, the head with
// the last.
Pipeline pipeline_of(nn::Module& model, const Mesh& mesh, const Communicator& data,
                     const Config& config, const TrainerOptions& given) {
  PipelineOptions options = {.schedule = Schedule::named(config.schedule),
                             .micro_batches = static_cast<int>(config.accumulation_steps),
                             .device = given.device,
                             .weigh_by_targets = given.weigh_by_targets,
                             .data = data};
  const auto stages =
      static_cast<size_t>(config.pipe) * static_cast<size_t>(options.schedule.chunks());
  nn::PipelineModel& pipeline_model = pipeline_model_of(model, "a pipeline");
  const std::optional<nn::ParallelForm> form = nn::parallel_form_of(model);
  const size_t blocks = form && form->stack ? nn::blocks_of(model, *form->stack).size() : 0;
  if (blocks > 0 && blocks % stages == 0 && pipeline_model.layers() == blocks + 2) {
    options.first_layers = {0};
    for (size_t i = 1; i < stages; ++i) options.first_layers.push_back(1 + i * (blocks / stages));
  }
  return Pipeline(pipeline_model, mesh["pipe"], options);
}

// The ranks that average gradients with this one. A collective where there are two axes of them.
Communicator data_ranks_of(const Config& config, const Mesh& mesh) {
  if (config.zero.shard_group_size == 0) return mesh["data"];
  return mesh.sub({"replicate", "shard"}).world();
}

using Clock = std::chrono::steady_clock;

// Adds the milliseconds that it lived.
class Watch {
 public:
  explicit Watch(double& sum) : sum_(sum) {}
  ~Watch() { sum_ += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  double& sum_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

struct Trainer::State {
  State(nn::Module& module, const Communicator& comm, const Config& given,
        const TrainerOptions& options)
      : model(module),
        world(comm),
        mesh(mesh_of(given, comm)),
        config(given.resolve(replicas_in(given, comm))),
        data(data_ranks_of(config, mesh)),
        weighs(options.weigh_by_targets),
        scaling(given.loss_scale),
        scaler({.init_scale = scaling.scale(),
                .growth_interval = int64_t{1} << 62,
                .enabled = given.compute == kFloat16}) {
    check(!given.optimizer.type.empty(), "trainer: the config has no \"optimizer\"");
    const std::string wrong = pairing_problem(given);
    check(wrong.empty(), "trainer: optimizer.type ", wrong);
    if (config.checkpoint_blocks) {
      auto* said = dynamic_cast<nn::Parallelizable*>(&model);
      check(said != nullptr && said->set_checkpoint(true),
            "trainer: \"checkpoint_blocks\" is for an nn::GPT or another model with "
            "set_checkpoint(), and the module is a ",
            model.type_name(), "; call checkpoint() in its forward");
    }
    if (config.compute != kFloat32 && !casts()) model.to(config.compute);
    if (config.tensor > 1) tensor_parallel(model, mesh["tensor"]);
    if (config.pipe > 1) {
      pipe.emplace(pipeline_of(model, mesh, data, config, options));
    } else if (config.zero.stage < 3 || !options.unit) {
      model.materialize(options.device);
    }
    states = file_of(config, model, mesh, config.zero.states_folder, true);
    parallel.emplace(put_on(config, model, mesh, options));
    optimizer = make_optimizer(config.optimizer, model.parameters(), *parallel, states.get());
    if (!config.scheduler.type.empty()) {
      schedule.emplace(*optimizer, make_curve(config.scheduler));
    }
    if (!config.report.empty() && comm.rank() == 0) report.emplace(config, comm, model);
  }

  bool casts() const { return casts_products(config); }
  bool is_boundary(int64_t backwards) const { return backwards % config.accumulation_steps == 0; }
  double clip_factor();
  bool take_step();
  bool end_step();
  void print();
  void add_gradients(const Tensor& loss, double weight);
  double train_pipeline(const Tensor& x, const Tensor& y);

  nn::Module& model;
  const Communicator& world;
  Mesh mesh;
  Config config;
  Communicator data;  // the ranks that average gradients with this one
  bool weighs;
  LossScaling scaling;
  optim::GradScaler scaler;
  std::optional<Pipeline> pipe = {};
  std::optional<DataParallel> parallel = {};
  std::shared_ptr<core::SwapFile> states = {};  // of the optimizer
  std::unique_ptr<optim::Optimizer> optimizer = {};
  std::optional<optim::Schedule> schedule = {};
  std::optional<TrainerReport> report = {};  // of rank 0
  int64_t global_steps = 0, micro_steps = 0, skipped_steps = 0;
  double norm = 0.0;
  double forward_ms = 0.0, backward_ms = 0.0, step_ms = 0.0;  // since the last line
  bool has_gradients = false;                                 // a backward has come since step()
};

// Clips; with a scale, by a factor that is left to the step, so that nobody unscales gradients of
// 16 bits in 16 bits.
double Trainer::State::clip_factor() {
  const double most = config.gradient_clipping;
  if (most == 0.0) return 1.0;
  const bool is_scaled = scaler.is_enabled();
  const Tensor found = is_scaled ? optim::grad_norm(model.parameters())
                                 : optim::clip_grad_norm(model.parameters(), most);
  norm = found.device().type == DeviceType::meta ? 0.0 : found.item() / scaler.get_scale();
  return is_scaled ? std::min(1.0, core::clip_factor(most, norm)) : 1.0;
}

// What DeepSpeed does at a boundary, in its order.
bool Trainer::State::take_step() {
  const double factor = clip_factor();
  const bool stepped = scaler.step(*optimizer, factor);
  if (scaler.is_enabled()) {
    scaling.update(!stepped);
    scaler.update(scaling.scale());  // ends the step there too
  }
  optimizer->zero_grad();
  ++global_steps;
  if (!stepped) ++skipped_steps;
  if (stepped && schedule) schedule->step();
  return stepped;
}

bool Trainer::State::end_step() {
  bool stepped = false;
  {
    const Watch watch(step_ms);
    stepped = take_step();
  }
  if (report) {
    const double scale = scaler.is_enabled() ? scaling.scale() : 1.0;
    report->write({global_steps, skipped_steps, optimizer->lr(), norm, scale});
  }
  print();
  return stepped;
}

// Forward and backward of all micro-batches are one call, and count as backward.
double Trainer::State::train_pipeline(const Tensor& x, const Tensor& y) {
  if (report) report->begin();
  double loss = 0.0;
  {
    const Watch watch(backward_ms);
    scaler.update(scaling.scale());
    loss = pipe->step(x, y, {.scale = scaler.is_enabled() ? scaler.get_scale() : 1.0});
  }
  if (report) report->loss(loss);
  micro_steps += config.accumulation_steps;
  end_step();
  return loss;
}

void Trainer::State::print() {
  if (config.steps_per_print == 0 || global_steps % config.steps_per_print != 0) return;
  std::ostream& out = world.out();
  out << "step " << global_steps << ", skipped " << skipped_steps << ", lr " << optimizer->lr();
  if (scaler.is_enabled()) out << ", loss scale " << scaling.scale();
  if (config.gradient_clipping > 0.0) out << ", gradient norm " << norm;
  if (config.wall_clock_breakdown) {
    out << "; ms of forward " << forward_ms << ", backward " << backward_ms << ", step " << step_ms;
  }
  out << "\n";
  forward_ms = backward_ms = step_ms = 0.0;
}

Trainer::Trainer(nn::Module& model, const Communicator& world, const Config& config,
                 const TrainerOptions& options)
    : state_("trainer", std::make_unique<State>(model, world, config, options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

Tensor Trainer::forward(const std::function<Tensor()>& run) {
  check(static_cast<bool>(run), "trainer: forward takes a function that computes the output");
  check(!state_->pipe, "trainer: a pipeline has no forward of its own; call train_batch()");
  if (state_->report) state_->report->begin();
  const Watch watch(state_->forward_ms);
  if (!state_->casts()) return run();
  const Autocast autocast({.dtype = state_->config.compute});
  return run();
}

// Those of a micro-batch's loss, which counts `weight` times in the mean over a step's.
void Trainer::State::add_gradients(const Tensor& loss, double weight) {
  check(!has_gradients,
        "trainer: backward was called twice; call step() after each one, which "
        "steps at the end of ",
        config.accumulation_steps, " micro-batches");
  const Watch watch(backward_ms);
  if (scaler.is_enabled()) scaler.update(scaling.scale());  // a checkpoint may have set it
  parallel->set_requires_gradient_sync(config.zero.reduce_each || is_boundary(micro_steps + 1));
  const auto parts = static_cast<double>(config.accumulation_steps);
  Tensor share = parts == 1.0 ? loss : loss / parts;
  if (weight != 1.0) share = (is_half(share.dtype()) ? share.to(kFloat32) : share) * weight;
  scaler.scale(share).backward();
  ++micro_steps;
  has_gradients = true;
}

void Trainer::backward(const Tensor& loss) {
  State& s = *state_;
  check(!s.pipe, "trainer: a pipeline has no backward of its own; call train_batch()");
  check(loss.defined(), "trainer: backward: the loss is undefined");
  check(loss.numel() == 1, "trainer: backward takes a loss of one element: got shape ",
        loss.shape());
  if (s.report) s.report->begin();
  s.add_gradients(loss, 1.0);
  if (s.report) s.report->loss(loss.item());
}

bool Trainer::step() {
  State& s = *state_;
  check(s.has_gradients, "trainer: step without a backward before it");
  s.has_gradients = false;
  return s.is_boundary(s.micro_steps) && s.end_step();
}

double Trainer::train_batch(const Tensor& x, const Tensor& y) {
  State& s = *state_;
  nn::PipelineModel& pipeline_model = pipeline_model_of(s.model, "train_batch()");
  const int64_t parts = s.config.accumulation_steps, rows = s.config.micro_batch_size;
  check(x.ndim() > 0 && x.size(0) == parts * rows && y.ndim() > 0 && y.size(0) == parts * rows,
        "trainer: train_batch of x ", x.shape(), " and y ", y.shape(),
        "; their first dimension must be ", parts, " micro-batches of ", rows);
  check(!s.has_gradients, "trainer: train_batch between a backward and its step");
  if (s.pipe) return s.train_pipeline(x, y);
  const auto part = [&](const Tensor& all, int64_t i) {
    return all.slice(0, i * rows, (i + 1) * rows);
  };
  if (s.report) s.report->begin();
  std::vector<double> losses, targets, weights;
  if (s.weighs) {
    for (int64_t i = 0; i < parts; ++i) targets.push_back(pipeline_model.target_count(part(y, i)));
    weights = target_weights(targets, s.data);
  }
  for (int64_t i = 0; i < parts; ++i) {
    const Tensor loss = forward([&] {
      return pipeline_model.root().run_fused(part(x, i), [&](const Tensor& in) {
        return pipeline_model.loss_from(0, in, part(y, i));
      });
    });
    losses.push_back(loss.item());
    s.add_gradients(loss, weights.empty() ? 1.0 : weights[static_cast<size_t>(i)]);
    if (s.report && i + 1 == parts) s.report->loss(mean_of_losses(losses, targets));
    step();
  }
  return mean_of_losses(losses, targets);
}

int Trainer::data_ranks() const {
  return state_->world.size() / (state_->config.tensor * state_->config.pipe);
}
int Trainer::data_rank() const {
  return state_->world.rank() / state_->config.tensor % data_ranks();
}
bool Trainer::is_gradient_accumulation_boundary() const {
  return state_->is_boundary(state_->micro_steps + (state_->has_gradients ? 0 : 1));
}
const Config& Trainer::config() const { return state_->config; }
int64_t Trainer::global_steps() const { return state_->global_steps; }
int64_t Trainer::micro_steps() const { return state_->micro_steps; }
int64_t Trainer::skipped_steps() const { return state_->skipped_steps; }
double Trainer::lr() const { return state_->optimizer->lr(); }
double Trainer::loss_scale() const {
  return state_->scaler.is_enabled() ? state_->scaling.scale() : 1.0;
}
double Trainer::global_grad_norm() const { return state_->norm; }
nn::StateDict Trainer::full_state_dict() const { return state_->parallel->full_state_dict(); }
nn::Module& Trainer::module() const { return state_->model; }
optim::Optimizer& Trainer::optimizer() const { return *state_->optimizer; }

void Trainer::track(Checkpointer& checkpoint) {
  State& s = *state_;
  checkpoint.track("model", s.model);
  checkpoint.track("optimizer", *s.optimizer);
  if (s.schedule) checkpoint.track("scheduler", *s.schedule);
  checkpoint.track("global_steps", s.global_steps);
  checkpoint.track("micro_steps", s.micro_steps);
  checkpoint.track("skipped_steps", s.skipped_steps);
  if (!s.scaler.is_enabled()) return;
  checkpoint.track("loss_scale", s.scaling.scale_);
  checkpoint.track("loss_scale_hysteresis", s.scaling.left_);
  checkpoint.track("loss_scale_good_steps", s.scaling.good_);
}

}  // namespace hero::dist
