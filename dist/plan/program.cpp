#include <optional>
#include <tuple>
#include <utility>

#include <hero/core/swap_file.h>
#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/pipeline.h>
#include <hero/dist/plan/model_sizes.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/simulation.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/zero.h>
#include <hero/nn/gpt.h>
#include <hero/nn/pipeline_model.h>
#include <hero/optim/adam.h>
#include <hero/optim/clip.h>
#include <hero/optim/grad_scaler.h>

namespace hero::dist {

namespace {

Mesh mesh_of(const Strategy& s, const Communicator& world) {
  if (s.sharding == PlanSharding::hybrid) {
    return Mesh(
        world,
        {{"pipe", s.pipe}, {"replicate", s.replicate}, {"shard", s.shard}, {"tensor", s.tensor}});
  }
  return Mesh(world, {{"pipe", s.pipe}, {"data", s.data()}, {"tensor", s.tensor}});
}

std::unique_ptr<nn::Module> model_of(const PlanRequest& request, const Strategy& s) {
  std::unique_ptr<nn::Module> model;
  if (request.own) {
    model = request.own->make();
    if (s.checkpoint) dynamic_cast<nn::Parallelizable&>(*model).set_checkpoint(true);
  } else {
    nn::GPTConfig config = request.model;
    config.checkpoint = s.checkpoint;
    if (s.pipe > 1) config.tie_weights = false;
    model = std::make_unique<nn::GPT>(config);
  }
  if (request.dtype != kFloat32) model->to(request.dtype);
  return model;
}

// Equally many blocks on every stage; the embedding is in the first stage and the head in the last.
std::vector<size_t> first_layers(const PlanRequest& request, const Strategy& s) {
  const auto stages = static_cast<size_t>(s.pipe) * static_cast<size_t>(s.schedule.chunks());
  const auto blocks = static_cast<size_t>(blocks_of(request)) / stages;
  std::vector<size_t> first = {0};
  for (size_t i = 1; i < stages; ++i) first.push_back(1 + i * blocks);
  return first;
}

UnitPolicy each_block(nn::Module& model) {
  std::vector<std::string> paths;
  for (const auto& [path, block] : nn::blocks_of(model, *nn::parallel_form_of(model)->stack)) {
    paths.push_back(path);
  }
  return each_of(std::move(paths));
}

// A batch of so many samples; GPT's targets are its tokens.
std::pair<Tensor, Tensor> batch_of(const PlanRequest& request, int64_t count) {
  const auto planned = [&](Shape shape, DType dtype) {
    shape[0] = count;
    return Tensor(Array::empty(shape, dtype, kMeta));
  };
  if (request.own) {
    const PlanModel& own = *request.own;
    return {planned(own.x().shape(), own.x().dtype()), planned(own.y().shape(), own.y().dtype())};
  }
  const Tensor tokens = planned({1, request.model.block_size}, kInt64);
  return {tokens, tokens};
}

std::optional<DataParallel> apply_sharding(const Strategy& s, nn::Module& model, const Mesh& mesh,
                                           core::SwapFile& file) {
  const bool leaves = s.offload != PlanOffload::none;
  core::SwapFile* const disk = s.offload == PlanOffload::disk ? &file : nullptr;
  const FSDPOptions by_block{.unit = each_block(model),
                             .reshard_after_forward = s.reshard,
                             .device = kMeta,
                             .offload = {.optimizer = leaves, .parameters = leaves, .disk = disk}};
  switch (s.sharding) {
    case PlanSharding::ddp:
      if (s.data() == 1) return {};
      return DDP(model, mesh["data"]);
    case PlanSharding::zero1:
      return ZeRO(model, mesh["data"], {.stage = 1, .offload = {.optimizer = leaves}});
    case PlanSharding::zero2:
      return ZeRO(model, mesh["data"], {.stage = 2, .offload = {.optimizer = leaves}});
    case PlanSharding::fsdp:
      return fully_shard(model, mesh["data"], by_block);
    case PlanSharding::hybrid:
      return fully_shard(model, mesh.sub({"replicate", "shard"}), by_block);
  }
  fail("plan: no sharding ", static_cast<int>(s.sharding));
}

// Everything of a rank between two steps.
class Runner {
 public:
  Runner(const PlanRequest& request, const Strategy& s, const Communicator& world)
      : strategy_(s),
        scaler_({.enabled = request.dtype == kFloat16}),
        mesh_(mesh_of(s, world)),
        model_(model_of(request, s)),
        pipeline_model_(dynamic_cast<nn::PipelineModel&>(*model_)) {
    if (s.tensor > 1) tensor_parallel(*model_, mesh_["tensor"]);
    if (s.pipe == 1 && s.sharding < PlanSharding::fsdp) model_->materialize(kMeta);
    if (s.pipe > 1) {
      pipe_.emplace(pipeline_model_, mesh_["pipe"],
                    PipelineOptions{.schedule = s.schedule,
                                    .micro_batches = static_cast<int>(s.micro_batches),
                                    .first_layers = first_layers(request, s),
                                    .device = kMeta});
    }
    parallel_ = apply_sharding(s, *model_, mesh_, file_);
    std::tie(x_, y_) = batch_of(request, s.micro_batch * (s.pipe > 1 ? s.micro_batches : 1));
    make_optimizer(request.dtype == kFloat32);
  }

  // The first step is there for what it makes, states and the order of buckets: for that one
  // micro-batch will do where they follow each other.
  void step(bool is_first) {
    simulated_part("forward and backward");
    if (pipe_) {
      pipe_->step(x_, y_, {.scale = scaler_.get_scale()});
    } else {
      accumulate(is_first ? 1 : strategy_.micro_batches);
    }
    simulated_part("optimizer");
    if (scaler_.is_enabled()) {
      optim::grad_norm(model_->parameters());
      scaler_.step(*optimizer_);
      scaler_.update(scaler_.get_scale());
    } else {
      optim::clip_grad_norm(model_->parameters(), 1.0);
      optimizer_->step();
    }
    model_->zero_grad();
  }

 private:
  void make_optimizer(bool wide) {
    const optim::AdamWOptions options{.lr = 1e-4};
    optimizer_ = std::make_unique<optim::AdamW>(model_->parameters(), options);
    if (!wide) optimizer_->use_master_weights();
    if (strategy_.offload == PlanOffload::disk) optimizer_->page_states(file_);
  }

  // Where gradients are whole anyhow they are averaged once, with the last micro-batch.
  void accumulate(int64_t m) {
    const bool once =
        strategy_.sharding == PlanSharding::ddp || strategy_.sharding == PlanSharding::zero1;
    for (int64_t i = 0; i < m; ++i) {
      if (parallel_ && once) parallel_->set_requires_gradient_sync(i + 1 == m);
      const Tensor loss = model_->run_fused(
          x_, [this](const Tensor& in) { return pipeline_model_.loss_from(0, in, y_); });
      scaler_.scale(m == 1 ? loss : loss / static_cast<double>(m)).backward();
    }
  }

  const Strategy& strategy_;
  core::SwapFile file_{"a plan", {.bytes = int64_t{1} << 60, .planned = true}};
  optim::GradScaler scaler_;  // of float16
  Mesh mesh_;
  std::unique_ptr<nn::Module> model_;
  nn::PipelineModel& pipeline_model_;
  std::optional<Pipeline> pipe_;
  std::optional<DataParallel> parallel_;
  Tensor x_, y_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace

void run_strategy(const PlanRequest& request, const Strategy& strategy, Communicator& world,
                  const std::function<void()>& between) {
  const nn::DeviceScope meta(kMeta);
  Runner runner(request, strategy, world);
  runner.step(true);
  between();
  runner.step(false);
}

std::vector<int> stage_ranks(const Strategy& strategy) {
  std::vector<int> ranks;
  for (int stage = 0; stage < strategy.pipe; ++stage) {
    ranks.push_back(stage * strategy.data() * strategy.tensor);
  }
  return ranks;
}

}  // namespace hero::dist
