// Products with what follows them in their memory, against their composed definitions.
#include <cmath>

#include "autograd/ops/fused.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>

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

Tensor class_numbers(const Tensor& x, int64_t classes) {
  return remainder(arange(x.size(0)) * 3, classes);
}

Tensor by_chunks(const Tensors& x, LinearCrossEntropyOptions options) {
  if (x.size() > 2) options.linear_bias = x[2];
  return linear_cross_entropy(x[0], x[1], class_numbers(x[0], x[1].size(0)), options);
}

Tensor at_once(const Tensors& x, const LinearCrossEntropyOptions& options) {
  return cross_entropy(linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor()),
                       class_numbers(x[0], x[1].size(0)),
                       {.reduction = options.reduction,
                        .ignore_index = options.ignore_index,
                        .label_smoothing = options.label_smoothing});
}

TEST_CASE("cross entropy of a product by chunks of rows is that of all its logits") {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const int64_t chunk : {1, 7, 20, 1000}) {  // of 20 rows
        const LinearCrossEntropyOptions options{.reduction = reduction,
                                                .ignore_index = chunk == 7 ? 3 : -100,
                                                .label_smoothing = smoothing,
                                                .batch_chunk_size = chunk};
        INFO("chunks of " << chunk << ", smoothing " << smoothing);
        const auto fused = [&](const Tensors& x) { return Tensors{by_chunks(x, options)}; };
        const auto plain = [&](const Tensors& x) { return Tensors{at_once(x, options)}; };
        agree(fused, plain, {{20, 16}, {30, 16}});
        agree(fused, plain, {{20, 16}, {30, 16}, {30}});
      }
    }
  }
  const auto f = [](const Tensors& x) {
    return Tensors{
        by_chunks(x, {.ignore_index = 3, .label_smoothing = 0.2, .batch_chunk_size = 2})};
  };
  differentiable(f, {{5, 3}, {4, 3}});
  differentiable(f, {{3, 2}, {4, 2}, {4}});
}

TEST_CASE("cross entropy of a product: what is frozen, kept, ignored and refused") {
  const Tensors x = inputs_of({{6, 3}, {4, 3}, {4}}, kFloat32);
  const Tensor target = class_numbers(x[0], 4);
  // Whichever inputs want gradients get theirs, from a graph that is kept too.
  const Tensors all = grad({by_chunks(x, {})}, x);
  for (size_t i = 0; i < 3; ++i) {
    Tensors some = x;
    for (size_t j = 0; j < 3; ++j) some[j] = j == i ? x[j] : x[j].detach();
    const Tensor loss = by_chunks(some, {.batch_chunk_size = 6});
    CHECK(equal(grad(loss, x[i], {.retain_graph = true}), all[i]));
    CHECK(equal(grad(loss * 2.0, x[i]), all[i] * 2.0));
  }
  {
    const NoGrad no_grad;  // the loss has the bits of the logits as a whole
    CHECK(equal(by_chunks(x, {.batch_chunk_size = 4}), at_once(x, {})));
  }
  const Tensor ignored = full({6}, 2).to(kInt64);
  const LinearCrossEntropyOptions none{.reduction = Reduction::sum, .ignore_index = 2};
  CHECK(equal(grad(linear_cross_entropy(x[0], x[1], ignored, none), x[0]), zeros({6, 3})));
  CHECK(std::isnan(linear_cross_entropy(x[0], x[1], ignored, {.ignore_index = 2}).item()));
  const Tensor nothing = zeros({0, 3}, {.requires_grad = true}), no_class = zeros({0}).to(kInt64);
  const Tensor loss = linear_cross_entropy(nothing, x[1], no_class, {.reduction = Reduction::sum});
  CHECK(equal(grad(loss, x[1]), zeros({4, 3})));
  CHECK(equal(linear_cross_entropy(x[0][1], x[1], target[1]),
              linear_cross_entropy(x[0].slice(0, 1, 2), x[1], target.slice(0, 1, 2))));

  const auto refused = [&](const Tensor& rows, const Tensor& w, const Tensor& classes,
                           const LinearCrossEntropyOptions& options, const std::string& why) {
    CHECK_THROWS_WITH(linear_cross_entropy(rows, w, classes, options),
                      ContainsSubstring("linear_cross_entropy: " + why));
  };
  refused(x[0], x[1], target, {.reduction = Reduction::none}, "Reduction::none would need");
  refused(x[0], x[1], target, {.batch_chunk_size = 0}, "batch_chunk_size must be positive: got 0");
  refused(x[0], x[1], target, {.label_smoothing = 1.5}, "label_smoothing 1.5 is outside");
  refused(x[0], x[1], target, {.linear_bias = x[0]}, "linear_bias should be float32 [4]");
  refused(x[0], x[0].t(), target, {}, "x [6, 3] and weight [3, 6] do not fit");
  refused(x[0], x[1].to(kFloat64), target, {}, "dtypes of x and weight: float32 and float64");
  refused(x[0], x[1], target.slice(0, 1), {}, "target [5] does not fit rows [6, 3]");
  refused(x[0], x[1], target + 1, {}, "target 4 at position 1 is outside [0, 4)");
  refused(x[0], x[1], x[0], {}, "target [6, 3] does not fit rows [6, 3]; it should be [6, 4]");
}

TEST_CASE("cross entropy of a product under autocast multiplies halves and is float32") {
  const Tensors x = inputs_of({{6, 8}, {4, 8}}, kFloat32);
  const Tensor expected = at_once(x, {});
  const Autocast autocast;
  const Tensor loss = by_chunks(x, {});
  CHECK(loss.dtype() == kFloat32);
  CHECK(!equal(loss, expected));
  CHECK(largest_difference(loss, expected) < 0x1p-6);  // bfloat16 has 8 bits
  for (const Tensor& g : grad({loss}, x)) CHECK(g.dtype() == kFloat32);
}

// The operations that linear_gelu_linear is one of.
Tensor in_two(const Tensor& x, const LinearWeights& in, const LinearWeights& out, Gelu kind) {
  return linear(linear_gelu(x, in.weight, in.bias, kind), out.weight, out.bias);
}

TEST_CASE("two products with gelu between them are their definition") {
  const std::vector<Shape> shapes = {{70, 33}, {40, 33}, {9, 40}, {40}, {9}};
  for (const Gelu kind : {Gelu::erf, Gelu::tanh}) {
    const auto product = [](const Tensor& x, const Tensor& w) { return matmul(x, w.t()); };
    agree(
        [=](const Tensors& x) {
          return Tensors{linear_gelu_linear(x[0], {x[1], x[3]}, {x[2], x[4]}, kind)};
        },
        [=](const Tensors& x) {
          return Tensors{product(gelu(product(x[0], x[1]) + x[3], kind), x[2]) + x[4]};
        },
        shapes);
    differentiable(
        [=](const Tensors& x) {
          return Tensors{linear_gelu_linear(x[0], {x[1], x[3]}, {x[2], x[4]}, kind)};
        },
        {{2, 2, 3}, {4, 3}, {2, 4}, {4}, {2}});
  }
  differentiable([](const Tensors& x) { return Tensors{linear_gelu_linear(x[0], {x[1]}, {x[2]})}; },
                 {{2, 3}, {4, 3}, {2, 4}});
}

TEST_CASE("two products with gelu between them have the bits of two operations") {
  const std::vector<Shape> shapes = {{2, 35, 33}, {40, 33}, {9, 40}, {40}, {9}};
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    for (unsigned wanted = 0; wanted < 32; ++wanted) {  // inputs that require grad
      const auto run = [&](const auto& function) {
        Tensors inputs = inputs_of(shapes, dtype), results;
        for (size_t i = 0; i < 5; ++i) inputs[i].requires_grad_((wanted >> i & 1) != 0);
        results.push_back(function(inputs[0], LinearWeights{inputs[1], inputs[3]},
                                   LinearWeights{inputs[2], inputs[4]}, Gelu::tanh));
        if (wanted != 0) results[0].backward(cos(results[0].detach()));
        for (const Tensor& x : inputs) results.push_back(x.grad());
        return results;
      };
      const Tensors one = run(linear_gelu_linear), two = run(in_two);
      for (size_t i = 0; i < one.size(); ++i) {
        INFO(name(dtype) << ", wanted " << wanted << ", result " << i);
        REQUIRE(one[i].defined() == two[i].defined());
        if (one[i].defined()) CHECK(same(one[i].array(), two[i].array()));
      }
    }
  }
}

TEST_CASE(
    "two products with gelu between them promote, broadcast and refuse as two operations do") {
  const Tensor x = randn({3, 4}), w1 = randn({5, 4}), w2 = randn({2, 5}), b = randn({2});
  const auto agrees = [&](const LinearWeights& in, const LinearWeights& out) {
    const Tensor one = linear_gelu_linear(x, in, out), two = in_two(x, in, out, Gelu::erf);
    CHECK(same(one.array(), two.array()));
  };
  agrees({w1}, {w2, b});
  agrees({w1, randn({5})}, {w2, b.to(kFloat64)});
  agrees({w1, randn({3, 1})}, {w2, b});
  {
    const Autocast autocast;
    CHECK(linear_gelu_linear(x, {w1}, {w2}).dtype() == kBFloat16);
    agrees({w1, randn({5})}, {w2, b});
  }
  CHECK_THROWS_WITH(linear_gelu_linear(x, {randn({5, 3})}, {w2}),
                    ContainsSubstring("linear: inner sizes differ: [3, 4] x [5, 3]"));
  CHECK_THROWS_WITH(linear_gelu_linear(x, {w1}, {w1}),
                    ContainsSubstring("linear: inner sizes differ: [3, 5] x [5, 4]"));
  CHECK_THROWS_WITH(linear_gelu_linear(x, {w1}, {randn({2, 5}, {.dtype = kFloat64})}),
                    ContainsSubstring("dtypes"));
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

TEST_CASE("cross entropy of a product has the same bits at 1, 2 and 3 threads", "[threads]") {
  same_at_any_threads(
      [](const Tensors& x) { return Tensors{by_chunks(x, {.batch_chunk_size = 300})}; },
      {{700, 33}, {90, 33}, {90}});
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
