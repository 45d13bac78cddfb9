#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/error.h>
#include <hero/core/profile/kernel_cost.h>
#include <hero/dist/parallel/tensor_plan.h>
#include <hero/dist/plan/model_sizes.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/nn/pipeline_model.h>

namespace hero::dist {

namespace {

// Counts the flops of kernels that run while it lives.
class FlopsMeter : public core::CostMeter {
 public:
  void charge(const core::KernelCost& cost) override {
    flops[static_cast<size_t>(cost.kind)] += static_cast<double>(cost.flops);
  }
  std::array<double, core::kKernelKindCount> flops = {};
};

nn::PipelineModel& pipeline_model_of(nn::Module& model) {
  auto* pipeline_model = dynamic_cast<nn::PipelineModel*>(&model);
  check(pipeline_model != nullptr, "plan: a ", model.type_name(),
        " is no nn::PipelineModel, whose layers a plan divides; derive it from nn::Stack");
  return *pipeline_model;
}

nn::StackForm stack_of(nn::Module& model) {
  const std::optional<nn::ParallelForm> form = nn::parallel_form_of(model);
  check(form && form->stack, "plan: the nn::ParallelForm of a ", model.type_name(),
        " has no stack, whose blocks a plan divides");
  return *form->stack;
}

// A parameter counts where it comes first.
std::vector<PlanModelSizes::Layer> parameters_of(nn::Module& model, bool& ties) {
  std::set<const nn::Slot*> cut;
  const TensorPlan plan = tensor_plan(model);
  for (const Region& region : regions_of(model, plan, 1)) {
    for (const CutParameter& piece : region.pieces) cut.insert(piece.slot);
  }
  nn::PipelineModel& pipeline_model = pipeline_model_of(model);
  std::vector<PlanModelSizes::Layer> layers(pipeline_model.layers());
  std::unordered_map<const detail::TensorImpl*, size_t> known;  // with the layer of the first
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (nn::Module* module : pipeline_model.modules_of(layer)) {
      for (const auto& [name, slot] : module->slots()) {
        if (slot->kind != nn::Slot::Kind::parameter) continue;
        const auto [found, fresh] = known.emplace(slot->tensor.impl(), layer);
        if (!fresh) {
          ties = ties || found->second < layer;
          continue;
        }
        const auto count = static_cast<double>(slot->tensor.numel());
        (cut.count(slot) > 0 ? layers[layer].cut : layers[layer].whole) += count;
        layers[layer].trains = layers[layer].trains && slot->tensor.requires_grad();
      }
    }
  }
  return layers;
}

void add_flops(nn::Module& model, const Tensor& x, const Tensor& y,
               std::vector<PlanModelSizes::Layer>& layers) {
  const NoGrad no_grad;
  nn::PipelineModel& pipeline_model = pipeline_model_of(model);
  Tensor value = x;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    FlopsMeter meter;
    const core::CostScope scope(&meter);
    if (layer + 1 < layers.size()) {
      value = pipeline_model.run_layers(layer, layer + 1, value);
    } else {
      pipeline_model.loss_from(layer, value, y);
    }
    layers[layer].flops = meter.flops;
  }
}

Tensor on_meta(const Tensor& x) { return Tensor(Array::empty(x.shape(), x.dtype(), kMeta)); }

PlanModelSizes measured(const PlanModel& given) {
  const std::unique_ptr<nn::Module> model = given.make();
  nn::PipelineModel& pipeline_model = pipeline_model_of(*model);
  PlanModelSizes sizes;
  sizes.blocks = static_cast<int64_t>(nn::blocks_of(*model, stack_of(*model)).size());
  check(pipeline_model.layers() == static_cast<size_t>(sizes.blocks) + 2, "plan: a ",
        model->type_name(), " of ", sizes.blocks, " blocks has ", pipeline_model.layers(),
        " layers; a plan wants one before the blocks, one for each block, and one behind them");
  std::vector<PlanModelSizes::Layer> layers = parameters_of(*model, sizes.ties);
  add_flops(*model, on_meta(given.x()), on_meta(given.y()), layers);
  sizes.first = layers.front();
  sizes.block = layers[1];
  sizes.last = layers.back();
  for (size_t i = 2; i + 1 < layers.size(); ++i) {
    check(layers[i].cut == layers[1].cut && layers[i].whole == layers[1].whole &&
              layers[i].flops == layers[1].flops,
          "plan: block ", i - 1, " of a ", model->type_name(),
          " is not like block 0; stages with as many blocks must have as much to do");
  }
  auto* said = dynamic_cast<nn::Parallelizable*>(model.get());
  sizes.checkpoints = said != nullptr && said->set_checkpoint(true);
  for (const Tensor& each : {given.x(), given.y()}) {
    sizes.sample_bytes += each.numel() * item_size(each.dtype());
  }
  return sizes;
}

}  // namespace

double PlanModelSizes::Layer::all_flops() const {
  return flops[static_cast<size_t>(core::KernelKind::matmul)] +
         flops[static_cast<size_t>(core::KernelKind::attention)];
}

PlanModel::PlanModel(std::function<std::unique_ptr<nn::Module>()> make, const Tensor& x,
                     const Tensor& y)
    : make_(std::move(make)), x_(x), y_(y) {
  check(static_cast<bool>(make_), "plan: a PlanModel without a function that makes the model");
  for (const Tensor& each : {x_, y_}) {
    check(each.defined() && each.ndim() > 0 && each.size(0) == 1,
          "plan: a PlanModel takes a batch of one sample and a batch of its target: got ",
          each.defined() ? to_string(each.shape()) : std::string("an undefined tensor"));
  }
  sizes_ = std::make_shared<const PlanModelSizes>(measured(*this));
}

std::unique_ptr<nn::Module> PlanModel::make() const {
  const nn::DeviceScope meta(kMeta);
  std::unique_ptr<nn::Module> model = make_();
  check(model != nullptr, "plan: a PlanModel's function made no model");
  return model;
}

bool can_cut(const PlanModel& model, int slices) {
  if (slices == 1) return true;
  const std::unique_ptr<nn::Module> made = model.make();
  const TensorPlan plan = tensor_plan(*made);
  if (plan.empty()) return false;
  try {
    regions_of(*made, plan, slices);
  } catch (const Error&) {  // says what so many slices do not divide
    return false;
  }
  return true;
}

int64_t blocks_of(const PlanRequest& request) {
  return request.own ? request.own->sizes().blocks : request.model.n_layer;
}

int64_t sample_bytes(const PlanRequest& request) {
  constexpr int64_t kTokenBytes = 8;
  return request.own ? request.own->sizes().sample_bytes : request.model.block_size * kTokenBytes;
}

}  // namespace hero::dist
