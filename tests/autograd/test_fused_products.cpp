// Products with what follows them in their memory, against their composed definitions.
#include "autograd/fused.h"
#include "support/catch.h"

#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

TEST_CASE("a product with bias and activation is its definition") {
  const auto product = [](const Tensors& x) { return matmul(x[0], x[1].t()) + x[2]; };
  const std::vector<Shape> shapes = {{70, 33}, {40, 33}, {40}};
  agree([](const Tensors& x) { return Tensors{linear(x[0], x[1], x[2])}; },
        [&](const Tensors& x) { return Tensors{product(x)}; }, shapes);
  agree([](const Tensors& x) { return Tensors{linear_relu(x[0], x[1], x[2])}; },
        [&](const Tensors& x) { return Tensors{relu(product(x))}; }, {{2, 3, 5}, {4, 5}, {4}});
  for (const Gelu kind : {Gelu::erf, Gelu::tanh}) {
    const auto fused = [=](const Tensors& x) {
      return Tensors{linear_gelu(x[0], x[1], x[2], kind)};
    };
    agree(
        fused, [&](const Tensors& x) { return Tensors{gelu(product(x), kind)}; }, shapes);
  }
}

TEST_CASE("a convolution with bias and relu is its definition") {
  const std::vector<Shape> shapes = {{3, 4, 7, 6}, {6, 2, 3, 3}, {6}};
  const Conv2dOptions options{.stride = {1, 2}, .padding = {1, 1}, .groups = 2};
  const auto plain = [=](const Tensors& x) {
    return conv2d(x[0], x[1], {}, options) + reshape(x[2], {6, 1, 1});
  };
  agree([=](const Tensors& x) { return Tensors{conv2d(x[0], x[1], x[2], options)}; },
        [=](const Tensors& x) { return Tensors{plain(x)}; }, shapes);
  agree([=](const Tensors& x) { return Tensors{conv2d_relu(x[0], x[1], x[2], options)}; },
        [=](const Tensors& x) { return Tensors{relu(plain(x))}; }, shapes);
  agree([](const Tensors& x) { return Tensors{conv2d_relu(x[0], x[1])}; },
        [](const Tensors& x) { return Tensors{relu(conv2d(x[0], x[1]))}; },
        {{2, 5, 5}, {3, 2, 2, 2}});
  differentiable([](const Tensors& x) { return Tensors{conv2d_relu(x[0], x[1], x[2])}; },
                 {{2, 1, 3, 3}, {2, 1, 2, 2}, {2}});
}

TEST_CASE("a convolution with bias and relu has the same bits at 1, 2 and 3 threads", "[threads]") {
  same_at_any_threads([](const Tensors& x) { return Tensors{conv2d_relu(x[0], x[1], x[2])}; },
                      {{9, 3, 20, 20}, {17, 3, 3, 3}, {17}});
}

TEST_CASE("the output of a fused relu must not change before backward") {
  const Tensor x = ones({2, 3}, {.requires_grad = true});
  const Tensor y = linear_relu(x, ones({4, 3}));
  {
    const NoGrad no_grad;
    y.mul_(2.0);
  }
  CHECK_THROWS_WITH(sum(y).backward(), ContainsSubstring("linear: output 0"));
}

}  // namespace
