// Cross entropy of a product of bfloat16 by the machine's instruction, bit for bit beside its
// definition: products summed in scalars, and what happens between them as float32 has it.
#include <vector>

#include "autograd/ops/fused.h"
#include "core/products/native_half_sum.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/half_products.h>

using namespace hero;
using namespace hero::test;
using hero_test::native_half_sum;

namespace {

constexpr int64_t kRows = 37, kInputs = 70, kClasses = 600, kChunk = 20;

// The sum of a(p) b(p) in float32, for all i and j.
template <class A, class B>
Array product(int64_t rows, int64_t columns, int64_t steps, const A& a, const B& b) {
  const Array out = Array::empty({rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      out.data<float>()[i * columns + j] = native_half_sum(
          steps, [&](int64_t p) { return a(i, p); }, [&](int64_t p) { return b(p, j); });
    }
  }
  return out;
}

auto element_of(const Array& x) {
  return
      [data = x.data<BFloat16>(), n = x.size(1)](int64_t i, int64_t j) { return data[i * n + j]; };
}

struct Results {
  Array loss, x, weight, bias;
};

// The loss is a sum, and its gradient 0.5.
Results by_definition(const Array& x, const Array& weight, const Array& bias,
                      const Array& classes) {
  const auto x_at = element_of(x), w_at = element_of(weight);
  const Array logits =
      product(kRows, kClasses, kInputs, x_at, [&](int64_t p, int64_t j) { return w_at(j, p); });
  core::Backend& cpu = core::cpu_backend();
  cpu.run(core::call::BiasActivation{core::Activation::none, &bias, logits, logits});
  const Array likelihood = Array::empty({kRows}), log_sum = Array::empty({kRows, 2});
  cpu.run(core::call::LogLikelihood{logits, classes, likelihood, log_sum});
  const Array sign = Array::full({kRows}, -1.0), slopes = Array::empty({kRows, kClasses});
  cpu.run(core::call::LogLikelihoodBack{sign, logits, classes, log_sum, slopes});
  const Array rounded = slopes.to(kBFloat16);
  const auto slope_at = element_of(rounded);
  Tensor g_weight, g_bias;
  for (int64_t first = 0; first < kRows; first += kChunk) {
    const int64_t end = std::min(kRows, first + kChunk);
    const Tensor part(product(
        kClasses, kInputs, end - first,
        [&](int64_t i, int64_t p) { return slope_at(first + p, i); },
        [&](int64_t p, int64_t j) { return x_at(first + p, j); }));
    g_weight = first == 0 ? part : g_weight + part;
    const Tensor sums = sum(Tensor(slopes.slice(0, first, end)), {0});
    g_bias = first == 0 ? sums : g_bias + sums;
  }
  const Array g_x = product(kRows, kInputs, kClasses, slope_at, w_at);
  const auto scaled = [](const Tensor& g) { return (g * 0.5).array().to(kBFloat16); };
  return {sum(-Tensor(likelihood)).array(), scaled(Tensor(g_x)), scaled(g_weight), scaled(g_bias)};
}

TEST_CASE("native cross entropy of a product of halves has the bits of its definition") {
  if (!native_half_products()) {
    SUCCEED("skipped: this processor has no products of bfloat16, or HERO_CPU leaves them out");
    return;
  }
  const Tensor x = Tensor(noise({kRows, kInputs}, kBFloat16, 1)).requires_grad_();
  const Tensor weight = Tensor(noise({kClasses, kInputs}, kBFloat16, 2)).requires_grad_();
  const Tensor bias = Tensor(noise({kClasses}, kBFloat16, 3)).requires_grad_();
  const Tensor classes = remainder(arange(kRows) * 7, kClasses);
  const LinearCrossEntropyOptions options{
      .linear_bias = bias, .reduction = Reduction::sum, .batch_chunk_size = kChunk};
  const Results expected =
      by_definition(x.array(), weight.array(), bias.detach().array().to(kFloat32), classes.array());
  const Tensor loss = linear_cross_entropy(x, weight, classes, options);
  CHECK(same(loss.array(), expected.loss.to(kBFloat16)));
  const std::vector<Tensor> g = grad({loss * 0.5}, {x, weight, bias});
  CHECK(same(g[0].array(), expected.x));
  CHECK(same(g[1].array(), expected.weight));
  CHECK(same(g[2].array(), expected.bias));
  const Autocast autocast;  // the loss is float32, not rounded
  CHECK(same(linear_cross_entropy(x, weight, classes, options).array(), expected.loss));
}

}  // namespace
