// Building and running one case.
#include "nn/golden/layer_cases.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {
// null stands for the input's size.
int64_t number(const Json& value) { return value.is_null() ? -1 : value.get<int64_t>(); }
}  // namespace

nn::Size2 size2(const Json& value) {
  if (value.is_array()) return {number(value[0]), number(value[1])};
  return value.get<int64_t>();
}

nn::Size3 size3(const Json& value) {
  if (value.is_array()) return {number(value[0]), number(value[1]), number(value[2])};
  return value.get<int64_t>();
}

nn::Size3 size3(const Json& args, const char* name, int64_t otherwise) {
  return args.contains(name) ? size3(args[name]) : nn::Size3(otherwise);
}

nn::Size2 size2(const Json& args, const char* name, int64_t otherwise) {
  return args.contains(name) ? size2(args[name]) : nn::Size2(otherwise);
}

Tensor weights(const Json& args, const char* name) {
  if (!args.contains(name)) return {};
  return tensor(args[name].get<std::vector<double>>(), {.dtype = kFloat64});
}

Subject make_subject(const Json& description) {
  static const Makers makers = [] {
    Makers all;
    add_plain_layers(all);
    add_window_layers(all);
    add_volume_layers(all);
    add_image_layers(all);
    add_losses(all);
    add_sequence_layers(all);
    add_more_layers(all);
    return all;
  }();
  const auto name = description["layer"].get<std::string>();
  check(makers.contains(name), "layer cases: no maker for ", name);
  Subject subject = makers.at(name)(description["args"], description["call"]);
  subject.module->train(description["train"].get<bool>());
  return subject;
}

Results run_subject(const Subject& subject, const Json& description, const Tensors& inputs,
                    const Tensors& grad_outputs) {
  Tensors leaves, outputs, wanted, smooth;
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool wants = is_floating(inputs[i].dtype());
    for (const Json& fixed : description["fixed"]) wants = wants && fixed.get<size_t>() != i;
    leaves.push_back(inputs[i].detach().clone().requires_grad_(wants));
    if (!wants) continue;
    wanted.push_back(leaves.back());
    names.push_back("di" + std::to_string(i));
  }
  for (int i = 0; i < description["calls"].get<int>(); ++i) outputs = subject.call(leaves);
  for (const auto& [name, parameter] : subject.module->named_parameters()) {
    wanted.push_back(parameter);
    names.push_back("dp." + name);
  }
  Results results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results["o" + std::to_string(i)] = outputs[i].detach();
    if (outputs[i].requires_grad()) smooth.push_back(outputs[i]);
  }
  check(smooth.size() == grad_outputs.size(), "layer cases: ", smooth.size(),
        " outputs require grad, ", grad_outputs.size(), " gradients are given");
  const Tensors grads = grad(smooth, wanted, {.grad_outputs = grad_outputs, .allow_unused = true});
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) results[names[i]] = grads[i];
  }
  for (const core::NamedArray& entry : subject.module->state_dict()) {
    results["s." + entry.name] = Tensor(entry.array.clone());
  }
  return results;
}

}  // namespace hero::test
