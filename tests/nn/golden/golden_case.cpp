#include "nn/golden/golden_case.h"

#include "support/catch.h"
#include "support/golden_dir.h"

#include <hero/autograd/ops.h>

namespace hero::test {

namespace {

// 1e-10: doubles; sums of fewer than 1000 terms of size 1 to 10, in another order than PyTorch's.
constexpr double kTolerance = 1e-10;

void compare(const std::string& what, const Tensor& got, const Array& expected) {
  INFO(what);
  REQUIRE(got.defined());
  REQUIRE(got.shape() == expected.shape());
  const Tensor difference = abs(got - Tensor(expected)) / (1.0 + abs(Tensor(expected)));
  CHECK((got.numel() == 0 || max(difference).item() < kTolerance));
}

// sin(1), sin(2), ... in the tensor's shape.
Tensor projection(const Tensor& like) {
  const Tensor count = arange(Scalar(1), Scalar(like.numel() + 1), Scalar(1), {.dtype = kFloat64});
  return sin(count).reshape(like.shape());
}

}  // namespace

GoldenCase::GoldenCase(const std::string& file, const std::string& name)
    : name_(name),
      arrays_(core::load_safetensors(golden_dir() + "/nn/" + file + ".safetensors").arrays) {}

std::map<std::string, Array> GoldenCase::part(const std::string& kind) const {
  const std::string prefix = name_ + "/" + kind + ".";
  std::map<std::string, Array> found;
  for (const auto& [name, array] : arrays_) {
    if (name.rfind(prefix, 0) == 0) found[name.substr(prefix.size())] = array;
  }
  return found;
}

void GoldenCase::check(nn::Module& module, const Call& call) const {
  INFO("case " << name_);
  nn::StateDict weights;
  for (const auto& [name, array] : part("w")) weights.push_back({name, array});
  module.to(kFloat64);
  module.load_state_dict(weights);
  module.zero_grad();
  Inputs inputs;
  for (const auto& [name, array] : part("in")) {
    inputs[name] = Tensor(array.clone(), is_floating(array.dtype()));
  }
  const std::vector<Tensor> outputs = call(inputs);
  const auto expected = part("out");
  REQUIRE(outputs.size() == expected.size());
  Tensor loss = zeros({}, {.dtype = kFloat64});
  for (size_t i = 0; i < outputs.size(); ++i) {
    compare("output " + std::to_string(i), outputs[i], expected.at(std::to_string(i)));
    loss = loss + sum(outputs[i] * projection(outputs[i]));
  }
  if (!loss.requires_grad()) return;
  loss.backward();
  for (const auto& [name, array] : part("gin")) {
    compare("gradient of " + name, inputs.at(name).grad(), array);
  }
  for (const auto& [name, array] : part("gw")) {
    compare("gradient of " + name, module.get_parameter(name).grad(), array);
  }
}

}  // namespace hero::test
