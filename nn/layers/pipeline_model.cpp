#include <algorithm>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/error.h>
#include <hero/nn/pipeline_model.h>

namespace hero::nn {

double valid_targets(const Tensor& targets) {
  check(targets.defined(), "target_count: the target is undefined");
  if (targets.device().type == DeviceType::meta) return static_cast<double>(targets.numel());
  const NoGrad unrecorded;
  return sum(targets != kIgnoredTarget).item();
}

double PipelineModel::target_count(const Tensor& target) const {
  check(target.defined(), "target_count: the target is undefined");
  return target.ndim() == 0 ? 1.0 : static_cast<double>(target.size(0));
}

Tensor PipelineSequential::run_layers(size_t begin, size_t end, const Tensor& x) {
  Tensor y = x;
  for (size_t i = begin; i < end; ++i) y = (*net_)[i](y);
  return y;
}

Tensor PipelineSequential::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  return loss_(run_layers(begin, layers(), x), target);
}

double PipelineSequential::target_count(const Tensor& target) const {
  return count_ ? count_(target) : PipelineModel::target_count(target);
}

double Stack::target_count(const Tensor& target) const {
  if (!target.defined() || target.dtype() != kInt64) return PipelineModel::target_count(target);
  return valid_targets(target);
}

Module& Stack::root() {
  auto* module = dynamic_cast<Module*>(this);
  check(module != nullptr, "Stack: a model derives from nn::Module, too");
  return *module;
}

StackForm Stack::stack() const {
  std::optional<StackForm> stack = parallel_form().stack;
  check(stack.has_value(), "Stack: the model's parallel form has no stack");
  return *stack;
}

size_t Stack::layers() const {
  // Lists of modules are of a module that can be changed.
  Module& module = const_cast<Stack*>(this)->root();
  return blocks_of(module, stack()).size() + 2;
}

namespace {

// The modules of the first layer, or those of the last one.
std::vector<Module*> ends_of(Module& root, const StackForm& stack, bool last) {
  std::vector<std::string> paths = stack.embedding;
  if (last) paths = {stack.norm, stack.head};
  std::vector<Module*> modules;
  for (const std::string& path : paths) {
    if (!path.empty()) modules.push_back(&root.get_submodule(path));
  }
  return modules;
}

}  // namespace

std::vector<Module*> Stack::modules_of(size_t layer) {
  const StackForm parts = stack();
  const Named<Module*> blocks = blocks_of(root(), parts);
  check(layer < blocks.size() + 2, root().type_name(), ": layer ", layer, " of ",
        blocks.size() + 2);
  if (layer > 0 && layer <= blocks.size()) return {blocks[layer - 1].second};
  return ends_of(root(), parts, layer > 0);
}

Tensor Stack::embed(const Tensor& x) {
  Tensor y = x;
  for (Module* each : ends_of(root(), stack(), false)) y = (*each)(y);
  return y;
}

Tensor Stack::run_layers(size_t begin, size_t end, const Tensor& x) {
  const StackForm parts = stack();
  const Named<Module*> blocks = blocks_of(root(), parts);
  const size_t last = blocks.size() + 1;
  check(begin < end && end <= last + 1, root().type_name(), ": layers ", begin, " to ", end, " of ",
        last + 1);
  Tensor y = begin == 0 ? embed(x) : x;
  for (size_t layer = std::max<size_t>(begin, 1); layer < std::min(end, last); ++layer) {
    y = (*blocks[layer - 1].second)(y);
  }
  if (end <= last) return y;
  for (Module* each : ends_of(root(), parts, true)) y = (*each)(y);
  return y;
}

Tensor Stack::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  return loss_of(run_layers(begin, layers(), x), target);
}

}  // namespace hero::nn
