// Batch norm in one operation against its definition: planes and columns of many lengths, by the
// batch's statistics and by given ones.
#include "autograd/ops/fused.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Given {
  bool weight, bias, training;
};

// Given statistics of C channels.
Tensor given_mean(int64_t C) { return arange(C) * 0.25 - 1.0; }
Tensor given_variance(int64_t C) { return arange(C) * 0.5 + 0.75; }

Function fused_channels(const Given& given) {
  return [given](const Tensors& x) {
    const int64_t C = x[0].size(1);
    return Tensors{batch_norm(x[0], given_mean(C), given_variance(C),
                              {.weight = given.weight ? x[1] : Tensor(),
                               .bias = given.bias ? x.back() : Tensor(),
                               .training = given.training,
                               .eps = 0.1})};
  };
}

Function composed_channels(const Given& given) {
  return [given](const Tensors& x) {
    Dims dims{0};
    for (int i = 2; i < x[0].ndim(); ++i) dims.push_back(i);
    const int64_t C = x[0].size(1);
    const Tensor center =
        given.training ? mean(x[0], dims, true) : as_channels(given_mean(C), x[0]);
    const Tensor apart = x[0] - center;
    const Tensor variance =
        given.training ? mean(square(apart), dims, true) : as_channels(given_variance(C), x[0]);
    Tensor y = apart / sqrt(variance + 0.1);
    if (given.weight) y = y * as_channels(x[1], x[0]);
    if (given.bias) y = y + as_channels(x.back(), x[0]);
    return Tensors{y};
  };
}

constexpr Given kAll[] = {{true, true, true},   {true, false, true}, {false, true, true},
                          {false, false, true}, {true, true, false}, {false, true, false}};

// Rows of columns, also many; planes shorter than, as long as and longer than lanes, with and
// without a rest; few channels, whose samples are shared out, and many; one sample.
const Shape kShapes[] = {{5, 3},        {600, 9},       {40, 130, 5},  {3, 2, 3, 2}, {3, 2, 4, 4},
                         {4, 20, 7, 7}, {6, 3, 14, 14}, {2, 17, 1030}, {1, 3, 2100}, {37, 1, 90}};

}  // namespace

TEST_CASE("batch_norm in one operation is its definition") {
  for (const Shape& shape : kShapes) {
    for (const Given& given : kAll) {
      INFO(to_string(shape) << (given.training ? " training" : " evaluation"));
      agree(fused_channels(given), composed_channels(given), shapes_of(shape, given));
    }
  }
}

TEST_CASE("batch_norm in one operation has first and second derivatives") {
  for (const Given& given : kAll) {
    differentiable(fused_channels(given), shapes_of({3, 2, 2}, given));
    differentiable(fused_channels(given), shapes_of({2, 2, 9}, given));
  }
}

TEST_CASE("batch_norm has the same bits at any number of threads", "[threads]") {
  for (const Shape& shape : {Shape{900, 70}, Shape{64, 300, 3}, Shape{8, 40, 30, 30},
                             Shape{40, 2, 50, 50}, Shape{32, 64, 7, 7}}) {
    for (const bool training : {true, false}) {
      const Given given{true, true, training};
      same_at_any_threads(fused_channels(given), shapes_of(shape, given));
    }
  }
}

TEST_CASE("batch_norm gives alone the gradients that are wanted, with the bits of all") {
  for (const bool training : {true, false}) {
    const Given given{true, true, training};
    const Function f = fused_channels(given);
    const Tensors inputs = inputs_of({{6, 5, 20}, {5}, {5}}, kFloat32);
    const Tensors all = outputs_and_gradients(f, inputs);
    for (size_t wanted = 0; wanted < 3; ++wanted) {
      Tensors alone;
      for (size_t i = 0; i < 3; ++i) {
        alone.push_back(inputs[i].detach().requires_grad_(i == wanted));
      }
      manual_seed(29);
      const Tensor y = f(alone)[0];
      const Tensor g = randn(y.shape(), {.dtype = kFloat64}).to(y.dtype());
      CHECK(equal(grad({y}, {alone[wanted]}, {.grad_outputs = {g}})[0], all[1 + wanted]));
    }
  }
}

TEST_CASE("batch_norm by given statistics remembers them and differentiates them where wanted") {
  const Tensor x = randn({4, 3, 5}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor mean = randn({3}, {.dtype = kFloat64}), variance = ones({3}, {.dtype = kFloat64});
  const Tensor expected = grad({sum(batch_norm(x, mean, variance))}, {x})[0];
  const Tensor y = sum(batch_norm(x, mean, variance));
  mean.fill_(7.0);  // as a step of training in between does
  variance.fill_(9.0);
  CHECK(equal(grad({y}, {x})[0], expected));
  const Tensors statistics{x, mean.detach().requires_grad_(), variance.detach().requires_grad_()};
  const Function f = [](const Tensors& in) { return Tensors{batch_norm(in[0], in[1], in[2])}; };
  CHECK_NOTHROW(gradcheck(f, statistics));
  CHECK_NOTHROW(gradgradcheck(f, statistics));
}

TEST_CASE("a value that is no number spoils its channel alone") {
  Tensor x = randn({4, 3, 40});
  x.select(1, 1).select(0, 2).slice(0, 5, 6).fill_(std::nan(""));
  const Tensor y = batch_norm(x, {}, {}, {.training = true});
  const Tensor bad = (y != y).to(kFloat32).sum({0, 2});
  CHECK(bad.to_vector<float>() == std::vector<float>{0.0f, 160.0f, 0.0f});
}
