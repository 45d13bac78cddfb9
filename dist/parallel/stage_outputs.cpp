#include <algorithm>
#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/error.h>
#include <hero/core/profile/kernel_cost.h>
#include <hero/dist/parallel/shown_slots.h>
#include <hero/dist/parallel/stage_outputs.h>
#include <hero/nn/hooks.h>

namespace hero::dist {
namespace {

Tensor planned(const Shape& shape, DType dtype) {
  return Tensor(Array::empty(shape, dtype, kMeta));
}

Tensor converted(const Tensor& x, std::optional<DType> dtype) {
  return dtype && is_floating(x.dtype()) ? x.to(*dtype) : x;
}

// Replaces all values of a module by planned ones on meta until `shown` is destroyed.
void show_planned(ShownSlots& shown, const std::vector<StageValue>& values,
                  std::optional<DType> dtype) {
  for (const StageValue& value : values) {
    const Tensor tensor = converted(planned(value.shape, value.leaf().dtype()), dtype);
    for (nn::Slot* slot : value.slots) shown.show(slot, tensor);
  }
}

}  // namespace

namespace {

// The layers between which ranks of tensor parallelism have a part of the positions each
// (.sequence): from the one with the first block to the one with the norm after the last.
class CutSequence {
 public:
  explicit CutSequence(nn::PipelineModel& model) {
    const auto* said = dynamic_cast<const nn::Parallelizable*>(&model.root());
    if (said == nullptr || said->block_parts() == 1) return;
    const nn::StackForm stack = said->parallel_form().stack.value();
    parts_ = said->block_parts();
    first_ = layer_of(model, *nn::blocks_of(model.root(), stack).front().second);
    last_ = layer_of(model, model.root().get_submodule(stack.norm));
  }
  // What a rank has of the output of layer `end` - 1.
  Shape part_of(const Shape& shape, size_t end) const {
    Shape part = shape;
    if (parts_ > 1 && first_ < end && end <= last_) part[part.size() - 2] /= parts_;
    return part;
  }

 private:
  static size_t layer_of(nn::PipelineModel& model, const nn::Module& module) {
    for (size_t layer = 0; layer < model.layers(); ++layer) {
      for (nn::Module* each : model.modules_of(layer)) {
        const std::vector<nn::Module*> below = each->modules();
        if (std::find(below.begin(), below.end(), &module) != below.end()) return layer;
      }
    }
    fail("pipeline: ", module.type_name(), " is in no layer of ", model.root().type_name());
  }

  int64_t parts_ = 1;
  size_t first_ = 0, last_ = 0;
};

}  // namespace

std::vector<StageOutput> stage_outputs(nn::PipelineModel& model, const std::vector<size_t>& begins,
                                       const std::vector<StageValue>& values, const Tensor& x,
                                       const StageDTypes& dtypes) {
  const LedgerScope ledger(planned_ledger());
  const core::CostScope no_work(nullptr);
  const NoGrad no_grad;
  const nn::EvalScope eval;
  const nn::WithoutHooks without_hooks;
  ShownSlots on_meta;
  show_planned(on_meta, values, dtypes.parameters);
  const CutSequence cut(model);
  std::vector<StageOutput> outputs;
  Tensor y = planned(x.shape(), x.dtype());
  for (size_t stage = 0; stage + 2 < begins.size(); ++stage) {
    y = model.run_layers(begins[stage], begins[stage + 1], converted(y, dtypes.parameters));
    y = converted(y, dtypes.output);
    check(is_floating(y.dtype()), "pipeline: layer ", begins[stage + 1] - 1, " gives ", y.dtype(),
          ", which has no gradient; cut the model elsewhere");
    outputs.push_back({cut.part_of(y.shape(), begins[stage + 1]), y.dtype()});
  }
  return outputs;
}

}  // namespace hero::dist
