#pragma once
// Layers built from the descriptions that tests/golden/layer_cases.py writes: a class of torch.nn,
// its keyword arguments, how to call it.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include <hero/nn/module.h>
#include <hero/nn/sizes.h>

namespace hero::test {

using Json = nlohmann::json;
using nn::Tensors;

/// A layer and how it is called with the case's inputs; outputs in PyTorch's order.
struct Subject {
  std::unique_ptr<nn::Module> module;
  std::function<Tensors(const Tensors& inputs)> call;
};

/// How to build a layer from its arguments; `call` holds the keyword arguments of the call.
using Maker = std::function<Subject(const Json& args, const Json& call)>;
using Makers = std::map<std::string, Maker>;

/// Each adds the layers of a family.
void add_plain_layers(Makers& makers);
void add_window_layers(Makers& makers);
void add_volume_layers(Makers& makers);
void add_image_layers(Makers& makers);
void add_losses(Makers& makers);
void add_sequence_layers(Makers& makers);
void add_more_layers(Makers& makers);

/// The layer of a case, with values of its own.
Subject make_subject(const Json& description);

/// What a case computed under the names of make_layers.py: o0, di0, dp.weight, s.running_mean ...
using Results = std::map<std::string, Tensor>;

/// Calls the layer as the description says and takes the gradients for those given as grad_outputs.
Results run_subject(const Subject& subject, const Json& description, const Tensors& inputs,
                    const Tensors& grad_outputs);

/// \name Arguments
/// \{
template <class T>
T get(const Json& args, const char* name, const T& otherwise) {
  return args.contains(name) && !args[name].is_null() ? args[name].get<T>() : otherwise;
}
/// A number or a pair.
nn::Size2 size2(const Json& value);
nn::Size2 size2(const Json& args, const char* name, int64_t otherwise);
/// The same of three.
nn::Size3 size3(const Json& value);
nn::Size3 size3(const Json& args, const char* name, int64_t otherwise);
/// One number or several.
template <class T>
nn::OneOrEach<T> one_or_each(const Json& args, const char* name) {
  if (!args.contains(name)) return {};
  return args[name].is_array() ? nn::OneOrEach<T>(args[name].get<std::vector<T>>())
                               : nn::OneOrEach<T>(args[name].get<T>());
}
/// A list of numbers, or undefined.
Tensor weights(const Json& args, const char* name);
/// \}

/// A layer of one tensor.
template <class M, class... Args>
Subject layer(Args&&... args) {
  auto module = std::make_unique<M>(std::forward<Args>(args)...);
  M* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) { return Tensors{(*raw)(x[0])}; }};
}
/// A layer of two tensors.
template <class M, class... Args>
Subject layer2(Args&&... args) {
  auto module = std::make_unique<M>(std::forward<Args>(args)...);
  M* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) { return Tensors{(*raw)(x[0], x[1])}; }};
}
/// A layer of three tensors.
template <class M, class... Args>
Subject layer3(Args&&... args) {
  auto module = std::make_unique<M>(std::forward<Args>(args)...);
  M* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) { return Tensors{(*raw)(x[0], x[1], x[2])}; }};
}

}  // namespace hero::test
