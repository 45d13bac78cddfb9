// Every layer beside PyTorch's: outputs, gradients and state of the cases in golden/nn, which
// tests/golden/make_layers.py wrote; and what holds for all layers: gradients against differences,
// meta, other dtypes, text.
#include "nn/golden/layer_golden.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/core/random.h>

namespace hero::test {

TEST_CASE("layers give PyTorch's outputs, gradients and state") { check_layers(kCpu); }

TEST_CASE("layers have PyTorch's names in PyTorch's order and print as PyTorch's") {
  each_case([](size_t, const Json& description) {
    const Subject subject = make_subject(description);
    std::vector<std::string> keys;
    for (const core::NamedArray& entry : subject.module->state_dict()) keys.push_back(entry.name);
    CHECK(keys == description["keys"].get<std::vector<std::string>>());
    CHECK(to_string(*subject.module) == description["repr"].get<std::string>());
  });
}

TEST_CASE("gradients through layers agree with finite differences") {
  each_case([](size_t i, const Json& description) {
    const Subject subject = loaded(i);
    Tensors inputs = listed(golden().tensors[i], "i");
    bool any = false;
    for (size_t at = 0; at < inputs.size(); ++at) {
      bool wants = is_floating(inputs[at].dtype());
      for (const Json& fixed : description["fixed"]) wants = wants && fixed.get<size_t>() != at;
      inputs[at] = inputs[at].clone().requires_grad_(wants);
      any = any || wants;
    }
    if (!any || !description["smooth"].get<bool>()) return;
    const TensorsFunction function = [&](const Tensors& x) { return subject.call(x); };
    // Central differences of functions of size 1 with steps of 1e-6 are good to about 1e-9; a few
    // losses have curvatures of 100.
    CHECK_NOTHROW(gradcheck(function, inputs, {.atol = 1e-6, .rtol = 1e-5}));
  });
}

TEST_CASE("layers plan their outputs on meta and materialise to the values of a direct build") {
  each_case([](size_t i, const Json& description) {
    Tensors shadows;
    for (const Tensor& input : listed(golden().tensors[i], "i")) {
      const DType dtype = is_floating(input.dtype()) ? kFloat32 : input.dtype();
      shadows.emplace_back(Array::empty(input.shape(), dtype, kMeta));
    }
    // Values lie where they were given.
    const Json& args = description["args"];
    if (args.contains("weight") || args.contains("_random_samples")) return;
    const auto build = [&](Device device) {
      manual_seed(17);
      const nn::DeviceScope scope(device);
      return make_subject(description);
    };
    const Subject subject = build(kMeta);
    Tensors outputs;
    REQUIRE_NOTHROW(outputs = subject.call(shadows));
    const Tensors expected = listed(golden().tensors[i], "o");
    REQUIRE(outputs.size() == expected.size());
    for (size_t at = 0; at < outputs.size(); ++at) {
      CHECK(to_string(outputs[at].shape()) == to_string(expected[at].shape()));
      CHECK(outputs[at].device() == kMeta);
    }
    const Subject later = build(kMeta), direct = build(kCpu);
    later.module->materialize();
    const nn::StateDict one = later.module->state_dict(), other = direct.module->state_dict();
    REQUIRE(one.size() == other.size());
    for (size_t at = 0; at < one.size(); ++at) CHECK(same(one[at].array, other[at].array));
  });
}

TEST_CASE("layers work in bfloat16") {
  each_case([](size_t i, const Json& description) {
    const Subject subject = loaded(i);
    subject.module->to(kBFloat16);
    Tensors inputs;
    for (const Tensor& input : listed(golden().tensors[i], "i")) {
      inputs.push_back(is_floating(input.dtype()) ? input.to(kBFloat16) : input);
    }
    const Tensors outputs = subject.call(inputs);
    const Tensors expected = listed(golden().tensors[i], "o");
    for (size_t at = 0; at < outputs.size(); ++at) {
      CHECK(outputs[at].dtype() == kBFloat16);
      // 8 bits: sums of some ten roundings of 2^-9, of values up to 8. State after several calls
      // and the steep ends of logarithms and 1 / v are not meant here.
      if (description["calls"] != 1 || description["layer"] == "GaussianNLLLoss") continue;
      CHECK(allclose(outputs[at].to(kFloat64), expected[at].to(kFloat64), 0.06, 0.15));
    }
  });
}

}  // namespace hero::test
