// A sum and its norm in one operation against the two one after the other.
#include "autograd/ops/fused.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/graph.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/nn/norm.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// The outputs of a sum and its norm that are used, and how.
enum class Used { both, norm, sum, often };

Tensors used(const SumAndNorm& y, Used which) {
  if (which == Used::norm) return {y.norm};
  if (which == Used::sum) return {y.sum};
  if (which == Used::often) return {y.sum * y.norm, y.sum * 0.3, square(y.norm), y.sum};
  return {y.sum, y.norm};
}

SumAndNorm fused_sum(const Tensors& x) {
  if (x.size() == 3) return add_rms_norm(x[0], x[1], x[2], 0.1);
  return add_layer_norm(x[0], x[1], {x[0].size(-1)}, x[2], x[3], 0.1);
}

SumAndNorm plain_sum(const Tensors& x) {
  const Tensor sum = x[0] + x[1];
  if (x.size() == 3) return {sum, rms_norm(sum, x[2], 0.1)};
  return {sum, layer_norm(sum, {sum.size(-1)}, x[2], x[3], 0.1)};
}

// Dtypes of x and of its residual, and whether under autocast.
struct Sum {
  DType x, residual;
  bool cast;
};
constexpr Sum kSums[] = {
    {kFloat64, kFloat64, false},  {kFloat32, kFloat32, false}, {kFloat32, kBFloat16, true},
    {kFloat32, kFloat16, true},   {kFloat32, kFloat16, false}, {kBFloat16, kBFloat16, false},
    {kBFloat16, kBFloat16, true}, {kBFloat16, kFloat32, true}, {kFloat64, kBFloat16, true}};

}  // namespace

TEST_CASE("a sum and its norm in one operation have the bits of the two one after the other") {
  for (const Shape& shape : {Shape{3, 700}, Shape{2, 80, 5}, Shape{4, 1}}) {
    const Shape row{shape[shape.size() - 1]};
    for (const auto& shapes : {std::vector<Shape>{shape, shape, row, row}, {shape, shape, row}}) {
      for (const Used which : {Used::both, Used::norm, Used::often}) {
        for (const auto& [dtype, of_residual, cast] : kSums) {
          Tensors inputs = inputs_of(shapes, dtype);
          inputs[1] = inputs[1].detach().to(of_residual).requires_grad_();
          const Autocast autocast({.enabled = cast});
          const Tensors found = outputs_and_gradients(
              [=](const Tensors& x) { return used(fused_sum(x), which); }, inputs);
          const Tensors expected = outputs_and_gradients(
              [=](const Tensors& x) { return used(plain_sum(x), which); }, inputs);
          REQUIRE(found.size() == expected.size());
          for (size_t i = 0; i < found.size(); ++i) {
            INFO(name(dtype) << " + " << name(of_residual) << (cast ? ", cast " : " ")
                             << to_string(shape) << ", result " << i);
            CHECK(same(found[i].array(), expected[i].array()));
          }
        }
      }
    }
  }
}

TEST_CASE("a sum and its norm have derivatives, whichever is used and wanted") {
  const Shape s{2, 3}, row{3};
  for (const Used which : {Used::both, Used::norm, Used::often}) {
    const auto f = [=](const Tensors& x) { return used(fused_sum(x), which); };
    differentiable(f, {s, s, row, row});
    differentiable(f, {s, s, row});
  }
  const Tensor fixed = inputs_of({s}, kFloat64)[0].detach();
  differentiable(
      [=](const Tensors& x) {
        return used(fused_sum({fixed, x[0], x[1]}), Used::both);
      },
      {s, row});
  differentiable(
      [=](const Tensors& x) {
        return used(fused_sum({x[0], fixed, x[1]}), Used::both);
      },
      {s, row});
  // Nobody asks for the norm.
  const Tensors in = inputs_of({s, s, row}, kFloat64);
  const Tensors found = grad({sum(fused_sum(in).sum)}, in, {.allow_unused = true});
  CHECK(equal(found[0], ones(s, {.dtype = kFloat64})));
  CHECK(equal(found[1], found[0]));
  CHECK(!found[2].defined());
}

TEST_CASE("a sum and its norm in one operation: what it keeps, and when it is two") {
  const Tensors in = inputs_of({{2, 3}, {2, 3}, {3}}, kFloat32);
  const SumAndNorm y = fused_sum(in);
  {
    const NoGrad no_grad;
    y.sum.mul_(2.0);
  }
  CHECK_THROWS_WITH(sum(y.norm).backward(), ContainsSubstring("add_rms_norm: output 0"));
  // A half is added to float32 in the one operation; its gradient is a half, recorded or not.
  for (const DType half : {kBFloat16, kFloat16}) {
    const Tensor r = in[1].detach().to(half).requires_grad_();
    const SumAndNorm mixed = fused_sum({in[0], r, in[2]});
    CHECK(mixed.norm.dtype() == kFloat32);
    CHECK(count_nodes(mixed.norm, "add_rms_norm") == 1);
    CHECK(count_nodes(mixed.norm, "add") == 0);
    const Tensor loss = sum(square(mixed.norm)) + sum(mixed.sum);
    const Tensor g = grad({loss}, {r}, {.retain_graph = true})[0];
    const Tensor recorded = grad({loss}, {r}, {.create_graph = true})[0];
    CHECK(g.dtype() == half);
    CHECK(recorded.dtype() == half);
    CHECK(largest_difference(g, recorded) < 0.01);  // bfloat16's spacing
  }
  // Of other shapes, dtypes and layouts it is a sum and a norm.
  const Tensor row = ones({3}), column = ones({2, 1}, {.dtype = kFloat64});
  CHECK(equal(add_rms_norm(in[0], row).norm, rms_norm(in[0] + row)));
  CHECK(add_rms_norm(in[0], column).sum.dtype() == kFloat64);
  CHECK(equal(add_rms_norm(in[0], ones({3, 2}).t()).sum, in[0] + 1.0));
  CHECK(add_layer_norm(zeros({0, 3}), zeros({0, 3}), {3}).norm.shape() == Shape{0, 3});
  const Autocast autocast;
  const Tensor half = ones({2, 3}).to(kBFloat16);
  const SumAndNorm cast = add_layer_norm(half, half, {3});
  CHECK(cast.sum.dtype() == kBFloat16);
  CHECK(cast.norm.dtype() == kFloat32);
  CHECK_THROWS_WITH(add_layer_norm(in[0], in[1], {2}), ContainsSubstring("add_layer_norm: "
                                                                         "normalized_shape [2]"));
  CHECK_THROWS_WITH(add_rms_norm(in[0], in[1], ones({2})),
                    ContainsSubstring("add_rms_norm: weight has shape [2]"));
}

TEST_CASE("norms in the dtype of autocast have the bits of a cast behind them, and so gradients") {
  for (const DType half : {kBFloat16, kFloat16}) {
    for (const DType of_residual : {kFloat32, half}) {
      for (const int64_t n : {int64_t{700}, int64_t{5}, int64_t{1}}) {
        Tensors inputs = inputs_of({{3, n}, {3, n}, {n}, {n}}, kFloat32);
        inputs[1] = inputs[1].detach().to(of_residual).requires_grad_();
        const auto norms = [&](bool direct) {
          return [=](const Tensors& x) -> Tensors {
            const detail::HalfNorms half_norms(direct);
            const auto [sum, norm] = add_layer_norm(x[0], x[1], {n}, x[2], x[3], 0.1);
            const Tensor alone = layer_norm(x[0], {n}, x[2], {}, 0.1);
            CHECK(norm.dtype() == (direct ? half : kFloat32));
            CHECK(alone.dtype() == norm.dtype());
            CHECK(sum.dtype() == kFloat32);
            return {sum, norm.to(half), alone.to(half)};
          };
        };
        const Autocast autocast({.dtype = half});
        const Tensors found = outputs_and_gradients(norms(true), inputs);
        const Tensors expected = outputs_and_gradients(norms(false), inputs);
        REQUIRE(found.size() == expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          INFO(name(half) << ", residual " << name(of_residual) << ", n " << n << ", result " << i);
          CHECK(same(found[i].array(), expected[i].array()));
        }
      }
    }
  }
  // Recorded backward passes too; without autocast nothing changes.
  const Tensors in = inputs_of({{2, 3}, {2, 3}, {3}, {3}}, kFloat32);
  const detail::HalfNorms half_norms(true);
  CHECK(fused_sum(in).norm.dtype() == kFloat32);
  const Autocast autocast;
  const Tensor loss = sum(square(fused_sum(in).norm.to(kFloat32)));
  const Tensor g = grad({loss}, {in[0]}, {.retain_graph = true})[0];
  const Tensor recorded = grad({loss}, {in[0]}, {.create_graph = true})[0];
  CHECK(recorded.requires_grad());
  CHECK(largest_difference(g, recorded) < 0.01);  // bfloat16's spacing
  CHECK(fused_sum(inputs_of({{2, 3}, {2, 3}, {3}, {3}}, kFloat64)).norm.dtype() == kFloat64);
}

TEST_CASE("a sum and its norm give the same bits at one, two and three threads",
          "[autograd][threads]") {
  for (const DType of_residual : {kFloat32, kBFloat16}) {
    same_at_any_threads(
        [=](const Tensors& x) {
          return used(fused_sum({x[0], x[1].to(of_residual), x[2], x[3]}), Used::both);
        },
        {{5000, 40}, {5000, 40}, {40}, {40}});
  }
}
