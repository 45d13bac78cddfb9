// Second names of operations, and members that make new tensors of a tensor's kind.
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::Equals;
using namespace hero;

TEST_CASE("second names do what the first ones do") {
  const Tensor a = tensor({0.25, -0.5, 0.75}), b = tensor({0.5, -0.5, 0.25});
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.dtype() == y.dtype() && equal(x, y);
  };
  const auto same_or_nan = [](const Tensor& x, const Tensor& y) {
    return x.dtype() == y.dtype() && allclose(x, y, 0.0, 0.0, true);
  };
  const Tensor c = tensor({0.25, -0.5, 0.75, 1.5, 3.0});  // within and beyond [-1, 1]
#define HERO_UNARY_NAME(second, f) CHECK(same_or_nan(second(c), f(c)));
#define HERO_BINARY_NAME(second, f) CHECK(same(second(a, b), f(a, b)));
#define HERO_NUMBER_NAME(second, f) CHECK(same(second(a, 0.25), f(a, 0.25)));
#include <hero/autograd/ops/elementwise/elementwise_list.h>
  CHECK(same(subtract(a, b, 2.0), sub(a, b, 2.0)));
  CHECK(same(divide(a, b, Rounding::floor), div(a, b, Rounding::floor)));
  CHECK(same(clip(a, 0.0, {}), clamp(a, 0.0, {})));
  CHECK(same(clip(a, 0), clamp(a, 0.0, {})));
  CHECK(same(a.clamp(0), clamp(a, 0.0, {})));
  CHECK(same(a.max(b), maximum(a, b)));
  CHECK(same(a.min(b), minimum(a, b)));
  CHECK(same(concatenate({a, b}), cat({a, b})));
  CHECK(same(concat({a, b}, 0), cat({a, b})));
  CHECK(same(row_stack({a, b}), vstack({a, b})));
  CHECK(same(ger(a, b), outer(a, b)));
  const Tensor m = a.unsqueeze(1), n = b.unsqueeze(0);
  CHECK(same(chain_matmul({m, n, m}), multi_dot({m, n, m})));
  CHECK(same(pinverse(m), pinv(m)));
  CHECK(same(igamma(b + 1.0, b + 1.0), gammainc(b + 1.0, b + 1.0)));
  CHECK(same(igammac(b + 1.0, b + 1.0), gammaincc(b + 1.0, b + 1.0)));
  CHECK(same(mvlgamma(b + 2.0, 2), multigammaln(b + 2.0, 2)));
  CHECK(same(trapz(a), trapezoid(a)));
  CHECK(same(trapz(a, b), trapezoid(a, b)));
  CHECK(same(split_with_sizes(a, {1, 2})[1], split(a, {1, 2})[1]));
  CHECK(same(adjoint(m), m.mT()));
  CHECK(same(inverse(eye(2) * 2.0), inv(eye(2) * 2.0)));
  CHECK(same(orgqr(m, a.slice(0, 0, 1)), householder_product(m, a.slice(0, 0, 1))));
}

TEST_CASE("new tensors take dtype and device of the one they are made from") {
  const Tensor x = ones({2}, {.dtype = kBFloat16});
  CHECK(x.new_zeros({3}).dtype() == kBFloat16);
  CHECK(equal(x.new_zeros({3}), zeros({3}, kBFloat16)));
  CHECK(equal(x.new_ones({2, 2}), ones({2, 2}, kBFloat16)));
  CHECK(equal(x.new_full({2}, 7.0), full({2}, 7.0, kBFloat16)));
  CHECK(x.new_empty({4, 1}).shape() == Shape{4, 1});
  CHECK(x.new_zeros({1}, {.dtype = kInt64}).dtype() == kInt64);
  CHECK(x.new_ones({1}, {.requires_grad = true}).requires_grad());
  CHECK(x.new_full({1}, 2, {.device = kMeta}).device() == kMeta);
  CHECK(x.new_empty({1}, {.dtype = kFloat64}).dtype() == kFloat64);
  CHECK(tensor({1, 2}).type_as(x).dtype() == kBFloat16);
  CHECK(x.element_size() == 2);
  CHECK(tensor({1, 2}).element_size() == 8);
  CHECK(x.is_floating_point());
  CHECK(!tensor({1, 2}).is_floating_point());
}

TEST_CASE("mT transposes the matrices in the last two dimensions") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  CHECK(equal(x.mT(), x.transpose(1, 2)));
  CHECK_THROWS_WITH(tensor({1.0, 2.0}).mT(), Equals("mT: needs a matrix: got shape [2]"));
}

TEST_CASE("gumbel_softmax draws each class as often as its probability, with a gradient") {
  manual_seed(3);
  const Tensor p = tensor({0.5, 0.3, 0.2});
  const Tensor rows = log(p).expand({20000, 3});
  const Tensor hard = gumbel_softmax(rows, {.tau = 0.5, .hard = true});
  CHECK(equal(amax(hard, {1}), ones({20000})));
  CHECK(allclose(hard.sum(1), ones({20000})));
  CHECK(allclose(hard.mean(0), p, 0.0, 0.015));
  const Tensor logits = log(p).requires_grad_();
  manual_seed(5);
  const Tensor soft = gumbel_softmax(logits, {.tau = 2.0});
  CHECK(allclose(soft.sum(), tensor(1.0)));
  soft[0].backward();
  const Tensor expected = soft[0] * (tensor({1.0, 0.0, 0.0}) - soft) / 2.0;
  CHECK(allclose(logits.grad(), expected.detach(), 1e-5, 1e-7));
  // The hard one has the gradient of the soft one.
  manual_seed(5);
  const Tensor again = log(p).requires_grad_();
  gumbel_softmax(again, {.tau = 2.0, .hard = true})[0].backward();
  CHECK(equal(again.grad(), logits.grad()));
  CHECK_THROWS_WITH(gumbel_softmax(logits, {.tau = 0.0}),
                    Equals("gumbel_softmax: tau must be positive: 0"));
}

TEST_CASE("one number is a shape, or a list of one dimension, without braces") {
  const Tensor x = arange(6).to(kFloat32).view({2, 3});
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(randint(0, 10, 4).shape() == Shape{4});
  CHECK(equal(x.view(-1), x.flatten()));
  CHECK(equal(x.reshape(size_t{6}), x.flatten()));
  CHECK(equal(x[0].expand(3).repeat(2), cat({x[0], x[0]})));
  CHECK(equal(x.roll(1, 0), x.flip(0)));
  CHECK(equal(x.roll(2), tensor({{4.0F, 5.0F, 0.0F}, {1.0F, 2.0F, 3.0F}})));
  CHECK(equal(sum(x, 1), tensor({3.0F, 12.0F})));
  CHECK(equal(flip(x, 0), x.flip({0})));
  // Both options and dimensions are lists in braces.
  CHECK(equal(x.var({0, 1}), x.var()));
  CHECK(equal(x.std({.dims = 1, .keepdim = true}), stddev(x, {.dims = 1, .keepdim = true})));
}

TEST_CASE("grad takes one output with one input or with a vector of inputs") {
  const Tensor a = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor b = tensor({3.0, 4.0}, {.requires_grad = true});
  const Tensor y = (a * b).sum();
  const std::vector<Tensor> inputs = {a, b};
  const auto all = grad(y, inputs, {.retain_graph = true});
  REQUIRE(all.size() == 2);
  CHECK(equal(all[0], b));
  CHECK(equal(all[1], a));
  CHECK(grad(y, {a, b}, {.retain_graph = true}).size() == 2);
  static_assert(std::is_same_v<decltype(grad(y, a)), Tensor>);
  static_assert(std::is_same_v<decltype(grad(y, {a})), Tensor>);
  static_assert(std::is_same_v<decltype(grad({y}, {a})), std::vector<Tensor>>);
}
