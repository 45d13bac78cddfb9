// Spectral norm and weight norm against PyTorch.
#include "nn/golden/golden_case.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/nn/activation.h>
#include <hero/nn/container.h>
#include <hero/nn/conv.h>
#include <hero/nn/linear.h>
#include <hero/nn/parametrize.h>
#include <hero/optim/adam.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

namespace {

void check_case(const char* name, nn::Module& module) {
  module.eval();
  GoldenCase("parametrized", name).check(module, [&](const Inputs& in) -> std::vector<Tensor> {
    return {module(in.at("x"))};
  });
}

std::vector<std::string> names(const nn::StateDict& state) {
  std::vector<std::string> list;
  for (const auto& entry : state) list.push_back(entry.name);
  return list;
}

}  // namespace

TEST_CASE("spectral norm and weight norm are PyTorch's, with gradients") {
  nn::Linear linear = nn::spectral_norm(nn::Linear(3, 4));
  check_case("spectral_linear", linear);
  nn::Conv2d conv(2, 3, 2);
  nn::spectral_norm(conv);
  check_case("spectral_conv", conv);
  nn::ConvTranspose1d transposed(2, 3, 2);
  nn::spectral_norm(transposed);
  check_case("spectral_transposed", transposed);
  nn::Linear rows = nn::weight_norm(nn::Linear(3, 4));
  check_case("weight_linear", rows);
  nn::Conv1d line(2, 3, 2);
  nn::weight_norm(line, {.dim = 1});
  check_case("weight_conv", line);
  nn::Linear whole = nn::weight_norm(nn::Linear(3, 4), {.dim = {}});
  check_case("weight_whole", whole);
}

TEST_CASE("spectral norm finds the largest singular value, in training step by step") {
  manual_seed(3);
  nn::Linear layer = nn::spectral_norm(nn::Linear(8, 6));
  const Tensor x = randn({2, 8});
  layer.eval();
  const Tensor u = layer.get_buffer("parametrizations.weight.0._u").clone();
  layer(x);
  CHECK(equal(layer.get_buffer("parametrizations.weight.0._u"), u));
  layer.train();
  for (int i = 0; i < 50; ++i) layer(x);
  CHECK_FALSE(equal(layer.get_buffer("parametrizations.weight.0._u"), u));
  CHECK(svdvals(layer.weight)[0].item() == Approx(1.0).epsilon(1e-4));
  CHECK(layer.weight.is_leaf());
}

TEST_CASE("what a weight is computed from is saved and trained, the weight itself is not") {
  manual_seed(4);
  nn::Sequential net{nn::weight_norm(nn::Linear(3, 4)), nn::ReLU(), nn::Linear(4, 2)};
  const Tensor x = randn({5, 3});
  nn::Linear plain(3, 4);
  CHECK(names(net.state_dict()) ==
        std::vector<std::string>{"0.bias", "0.parametrizations.weight.original0",
                                 "0.parametrizations.weight.original1", "2.weight", "2.bias"});
  CHECK(net.get_parameter("0.parametrizations.weight.original0").shape() == Shape{4, 1});
  optim::Adam adam(net.parameters(), {.lr = 0.1});
  const double before = net(x).square().mean().item();
  for (int i = 0; i < 20; ++i) {
    adam.zero_grad();
    net(x).square().mean().backward();
    adam.step();
  }
  CHECK(net(x).square().mean().item() < 0.5 * before);
  nn::Sequential other{nn::weight_norm(nn::Linear(3, 4)), nn::ReLU(), nn::Linear(4, 2)};
  other.load_state_dict(net.state_dict());
  CHECK(equal(other(x), net(x)));
  const Tensor y = net(x);
  net.to(kFloat64);
  CHECK(allclose(net(x.to(kFloat64)), y.to(kFloat64), 1e-5, 1e-6));
}

TEST_CASE("weight norm changes nothing at first, and frozen parameters stay frozen") {
  manual_seed(5);
  nn::Linear layer(3, 4);
  layer.weight.requires_grad_(false);
  const Tensor x = randn({5, 3}), y = layer(x);
  nn::weight_norm(layer);
  CHECK(allclose(layer(x), y, 1e-5, 1e-6));
  CHECK_FALSE(layer.get_parameter("parametrizations.weight.original0").requires_grad());
  CHECK(layer.parameters().size() == 3);
}

// The text is that of PyTorch 2.15.
TEST_CASE("a layer with a computed weight is printed with its options on a line of their own") {
  nn::Sequential net{nn::weight_norm(nn::Linear(3, 4)), nn::Tanh()};
  CHECK(to_string(net) == R"(Sequential(
  (0): ParametrizedLinear(
    in_features=3, out_features=4, bias=True
    (parametrizations): ModuleDict(
      (weight): ParametrizationList(
        (0): _WeightNorm()
      )
    )
  )
  (1): Tanh()
))");
}

TEST_CASE("a checkpoint runs spectral norm and batch norm again without moving their states") {
  const auto run = [](bool again) {
    manual_seed(6);
    nn::Sequential net{nn::spectral_norm(nn::Linear(3, 4)), nn::BatchNorm1d(4, {.momentum = {}})};
    const Tensor x = randn({5, 3}), y = randn({5, 4});
    for (int i = 0; i < 3; ++i) {
      const Tensor out = again ? checkpoint([&](const Tensor& in) { return net(in); }, x) : net(x);
      mse_loss(out, y).backward();
    }
    std::vector<Tensor> all;
    for (const Tensor& p : net.parameters()) all.push_back(p.grad());
    for (const auto& [name, array] : net.state_dict()) all.emplace_back(array);
    return all;
  };
  const std::vector<Tensor> plain = run(false), again = run(true);
  REQUIRE(plain.size() == again.size());
  for (size_t i = 0; i < plain.size(); ++i) CHECK(equal(plain[i], again[i]));
}

TEST_CASE("an error in a layer leaves its computed weight as values") {
  nn::Linear layer = nn::weight_norm(nn::Linear(3, 4));
  CHECK_THROWS(layer(zeros({2, 5})));
  CHECK(layer.parameters().size() == 3);
}

TEST_CASE("parametrizations that cannot be are refused") {
  nn::Linear layer = nn::spectral_norm(nn::Linear(3, 4));
  CHECK_THROWS_WITH(nn::spectral_norm(layer),
                    ContainsSubstring("Linear's weight has a parametrization already"));
  CHECK_THROWS_WITH(nn::weight_norm(layer, {.name = "scale"}), ContainsSubstring("no 'scale'"));
  nn::Linear other(3, 4);
  CHECK_THROWS_WITH(nn::weight_norm(other, {.dim = 2}), ContainsSubstring("dim 2 is out of range"));
  CHECK_THROWS_WITH(nn::spectral_norm(other, {.n_power_iterations = 0}),
                    ContainsSubstring("must be positive: 0"));
  const nn::DeviceScope meta(kMeta);
  nn::Linear planned(3, 4);
  CHECK_THROWS_WITH(nn::spectral_norm(planned), ContainsSubstring("is on meta"));
}
