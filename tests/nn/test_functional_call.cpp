// Calls of modules with other tensors in the place of their parameters.
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/nn/activation.h>
#include <hero/nn/container.h>
#include <hero/nn/functional_call.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a functional call computes with the tensors that it is given, and puts back the own") {
  manual_seed(1);
  nn::Linear layer(3, 2);
  const Tensor x = randn({4, 3}), own = layer(x), weight = layer.weight;
  const Tensor other = randn({2, 3});
  const Tensor y = nn::functional_call(layer, {{"weight", other}}, x);
  CHECK(equal(y, linear(x, other, layer.bias)));
  CHECK(is_same(layer.weight, weight));
  CHECK(equal(layer(x), own));
  const Tensor z = nn::functional_call(layer, std::vector<Tensor>{other, zeros({2})}, x);
  CHECK(equal(z, linear(x, other, zeros({2}))));
  CHECK_THROWS(nn::functional_call(layer, {{"weight", randn({2, 4})}}, x));
  CHECK(is_same(layer.weight, weight));
}

TEST_CASE("gradients flow through steps of an inner loop") {
  manual_seed(2);
  nn::Sequential net{nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 1)};
  net.to(kFloat64);
  const Tensor x = randn({5, 2}, {.dtype = kFloat64}), y = randn({5, 1}, {.dtype = kFloat64});
  const auto after_step = [&](const std::vector<Tensor>& parameters) {
    std::vector<Tensor> fast = parameters;
    const Tensor loss = mse_loss(nn::functional_call(net, fast, x), y);
    const std::vector<Tensor> g = grad({loss}, fast, {.create_graph = true});
    for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.3 * g[i];
    return mse_loss(nn::functional_call(net, fast, x), y);
  };
  CHECK(gradcheck([&](const auto& in) { return after_step(in); }, net.parameters()));
}

TEST_CASE("a functional call replaces buffers, and all names of a tied parameter") {
  struct Tied : nn::Module {
    nn::Linear &a = add<nn::Linear>("a", 2, 2, {.bias = false}),
               &b = add<nn::Linear>("b", 2, 2, {.bias = false});
    Tied() { b.weight = a.weight; }
    Tensor forward(const Tensor& x) override { return b(a(x)); }
  } tied;
  const Tensor two = 2.0 * eye(2), x = ones({1, 2});
  CHECK(equal(nn::functional_call(tied, {{"b.weight", two}}, x), 4.0 * x));
  CHECK(equal(nn::functional_call(tied, std::vector<Tensor>{two}, x), 4.0 * x));
  CHECK(is_same(tied.a.weight, tied.b.weight));
  nn::BatchNorm1d norm(2);
  norm.eval();
  const Tensor shifted = nn::functional_call(norm, {{"running_mean", ones({2})}}, x);
  CHECK(allclose(shifted, zeros({1, 2}), 0.0, 1e-6));
}

TEST_CASE("names and numbers of tensors that a module does not have are refused") {
  nn::Linear layer(3, 2);
  const Tensor x = zeros({1, 3});
  CHECK_THROWS_WITH(nn::functional_call(layer, {{"weigth", x}, {"b", x}}, x),
                    ContainsSubstring("Linear has no parameter or buffer named weigth, b"));
  CHECK_THROWS_WITH(nn::functional_call(layer, std::vector<Tensor>{x}, x),
                    ContainsSubstring("has 2 parameters, and 1 tensors were given"));
  CHECK_THROWS_WITH(nn::functional_call(layer, {{"weight", Tensor()}}, x),
                    ContainsSubstring("the tensor for weight is undefined"));
}
