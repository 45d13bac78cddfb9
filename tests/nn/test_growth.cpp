// What is done to a module's parameters takes no longer for each of many than for each of few.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/growth.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops.h>
#include <hero/nn/container.h>
#include <hero/nn/functional_call.h>
#include <hero/nn/linear.h>

using namespace hero;
using hero_test::growth_to_eightfold;
using hero_test::kLinear;

namespace {

constexpr int kParameters = 2000;

std::shared_ptr<nn::Sequential> layers_of(int parameters) {
  auto model = std::make_shared<nn::Sequential>();
  for (int i = 0; i < parameters / 2; ++i) model->append<nn::Linear>(1, 1);
  return model;
}

// How `work` on a model grows with the number of its parameters.
double growth_of(const std::function<void(nn::Sequential&)>& work) {
  return growth_to_eightfold(kParameters, [&](int parameters) {
    return [&work, model = layers_of(parameters)] { work(*model); };
  });
}

}  // namespace

TEST_CASE("making a module grows with the number of its children") {
  CHECK(growth_to_eightfold(kParameters, [](int parameters) {
          return [parameters] { layers_of(parameters); };
        }) < kLinear);
  CHECK(growth_to_eightfold(kParameters, [](int parameters) {
          const Tensor leaf = zeros({1});
          return [parameters, leaf] {
            nn::ParameterDict all;
            for (int i = 0; i < parameters; ++i) {
              all.insert(std::to_string(i), leaf.detach());
              static_cast<void>(all[std::to_string(i)]);
            }
          };
        }) < kLinear);
}

TEST_CASE("lists of parameters, states and conversions grow with their number") {
  using Work = std::pair<const char*, std::function<void(nn::Sequential&)>>;
  const std::vector<Work> works = {
      {"to", [](nn::Sequential& m) { m.to(kCpu); }},
      {"state", [](nn::Sequential& m) { m.load_state_dict(m.state_dict()); }},
      {"functional_call",
       [](nn::Sequential& m) {
         nn::functional_call(m, m.named_parameters(), zeros({1, 1}));
       }},
  };
  for (const auto& [name, work] : works) {
    INFO(name);
    CHECK(growth_of(work) < kLinear);
  }
}

TEST_CASE("a parameter is found by its name in the time of one name") {
  CHECK(growth_to_eightfold(kParameters / 8, [](int parameters) {
          const auto model = layers_of(parameters);
          return [model] {
            for (size_t i = 0; i < model->size(); ++i) {
              const std::string layer = std::to_string(i);
              static_cast<void>(model->get_parameter(layer + ".weight"));
              model->get_submodule(layer).train();
            }
          };
        }) < kLinear);
}

TEST_CASE("reading a file grows with the number of its tensors") {
  const hero_test::TempDir dir;
  CHECK(growth_to_eightfold(kParameters, [&](int parameters) {
          const std::string path = dir / std::to_string(parameters);
          const auto model = layers_of(parameters);
          model->save(path);
          return [path, model] { model->load(path); };
        }) < kLinear);
}

TEST_CASE("hooks that were removed take no time and no place") {
  CHECK(growth_to_eightfold(kParameters, [](int steps) {
          const auto layer = std::make_shared<nn::Linear>(1, 1);
          return [layer, steps] {
            const Tensor x = zeros({1, 1});
            for (int i = 0; i < steps; ++i) {
              auto hook = layer->register_forward_hook(
                  [](nn::Module&, const nn::Tensors&, const nn::Tensors&) {});
              (*layer)(x);
              hook.remove();
              layer->weight.register_hook([](const Tensor& g) { return g; }).remove();
              sum((*layer)(x)).backward();
            }
          };
        }) < kLinear);
}

TEST_CASE("names below a module are found as lists of them have them") {
  nn::Sequential net{nn::Linear(2, 2), nn::Sequential{nn::Linear(2, 2)}};
  CHECK(&net.get_submodule("") == &net);
  CHECK(&net.get_submodule("1.0") == &static_cast<nn::Sequential&>(net[1])[0]);
  CHECK(is_same(net.get_parameter("1.0.bias"), net.named_parameters()[3].second));
  for (const char* path : {"1.", ".1", "1..0", "2", "1.0.bias"}) {
    INFO(path);
    CHECK_THROWS_WITH(net.get_submodule(path), Catch::Matchers::ContainsSubstring("has no module"));
  }
  for (const char* path : {"", "1", "1.0", "1.0.", "1..0.bias", "bias"}) {
    INFO(path);
    CHECK_THROWS_WITH(net.get_parameter(path), Catch::Matchers::ContainsSubstring("has no '"));
  }
  nn::Module& other = net.replace("1.0", nn::Linear(2, 2, {.bias = false}));
  CHECK(&net.get_submodule("1.0") == &other);
  CHECK_THROWS(net.get_parameter("1.0.bias"));
}

TEST_CASE("a functional call may exchange two parameters") {
  nn::Sequential net{nn::Linear(2, 2, {.bias = false}), nn::Linear(2, 2, {.bias = false})};
  const Tensor x = randn({3, 2}), own = net(x);
  const Tensor a = net.get_parameter("0.weight"), b = net.get_parameter("1.weight");
  const Tensor y = nn::functional_call(net, {{"0.weight", b}, {"1.weight", a}}, x);
  CHECK(equal(y, linear(linear(x, b), a)));
  CHECK(is_same(net.get_parameter("0.weight"), a));
  CHECK(is_same(net.get_parameter("1.weight"), b));
  CHECK(equal(net(x), own));
}
