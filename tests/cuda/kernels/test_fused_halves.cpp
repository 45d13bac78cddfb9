// Halves through the fused operations of autograd: on a GPU they stay halves.
#include "cuda/close.h"
#include "support/graph.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/ledger.h>
#include <hero/cuda/graph.h>
#include <hero/nn/gpt.h>

using namespace hero;
using namespace hero_test;
using test::count_nodes, test::noise;

namespace {

Tensor leaf(const Array& values, Device device) {
  return Tensor(values.to(device).clone()).requires_grad_();
}

// Gradients of halves are rounded where they are made and where they are stored: twice.
constexpr double kTwice = 2.0;

}  // namespace

TEST_CASE("layer and RMS norm of halves on the GPU are those of float64") {
  HERO_NEEDS_GPU();
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Array x = noise({3, 40}, dtype), w = noise({40}, dtype, 2), b = noise({40}, dtype, 3);
    const Array g = noise({3, 40}, dtype, 4);
    std::vector<Array> results[2];
    for (const bool gpu : {false, true}) {
      const Device device = gpu ? kGpu : kCpu;
      const auto as = [&](const Array& values) {
        return leaf(gpu ? values : values.to(kFloat64), device);
      };
      const Tensor tx = as(x), tw = as(w), tb = as(b);
      const Tensor gradient((gpu ? g : g.to(kFloat64)).to(device));
      const Tensor layer = layer_norm(tx, {40}, tw, tb), rms = rms_norm(tx, tw, 1e-5);
      layer.backward(gradient);
      results[gpu] = {layer.array(), tx.grad().array().clone(), tw.grad().array().clone(),
                      tb.grad().array().clone(), rms.array()};
    }
    for (size_t i = 0; i < results[1].size(); ++i) {
      INFO(name(dtype) << " result " << i);
      CHECK(results[1][i].dtype() == dtype);
      CHECK(distance(results[1][i], results[0][i]) <= kTwice * allowed(dtype));
    }
  }
}

TEST_CASE("cross entropy of halves makes no float32 copy of the scores, under autocast too") {
  HERO_NEEDS_GPU();
  const Array x = noise({6, 3000}, kBFloat16);
  const Array classes = test::make(
      {6}, [](int64_t i) { return (i * 7919) % 3000; }, kInt64);
  const Tensor exact_x = leaf(x.to(kFloat64), kCpu);
  const Tensor exact = cross_entropy(exact_x, Tensor(classes));
  exact.backward();
  for (const bool cast : {false, true}) {
    Ledger ledger;
    const LedgerScope scope(ledger);
    const Tensor tx = leaf(x, kGpu), target(classes.to(kGpu));
    ledger.reset_peak();
    const int64_t before = ledger.live(DeviceType::cuda);
    Tensor loss;
    {
      const Autocast autocast({.enabled = cast});
      loss = cross_entropy(tx, target);
    }
    CHECK(loss.dtype() == (cast ? kFloat32 : kBFloat16));
    CHECK(ledger.peak(DeviceType::cuda) - before < x.nbytes());
    loss.backward();
    CHECK(tx.grad().dtype() == kBFloat16);
    CHECK(distance(loss.array(), exact.array()) <= (cast ? 1.0 : 2.0) * allowed(loss.dtype()));
    CHECK(distance(tx.grad().array(), exact_x.grad().array()) <= kTwice * allowed(kBFloat16));
  }
}

namespace {

struct SumsOf {
  DType residual;
  bool centered, sum_used;
};

// Outputs and gradients of a float32 sum with a half and of its norm, in one operation or two.
std::vector<Tensor> sum_and_norm(const Array& of_x, const Array& of_residual, const SumsOf& c,
                                 bool fused) {
  const int64_t n = of_x.shape()[1];
  const Tensor x = leaf(of_x, kGpu), r = leaf(of_residual, kGpu);
  const Tensor w = leaf(noise({n}, kFloat32, 3), kGpu), b = leaf(noise({n}, kFloat32, 4), kGpu);
  SumAndNorm y;
  {
    const Autocast autocast({.dtype = c.residual});
    if (fused) {
      y = c.centered ? add_layer_norm(x, r, {n}, w, b) : add_rms_norm(x, r, w);
    } else {
      y.sum = x + r;
      y.norm = c.centered ? layer_norm(y.sum, {n}, w, b) : rms_norm(y.sum, w);
    }
  }
  CHECK(count_nodes(y.norm, "add") == (fused ? 0 : 1));
  std::vector<Tensor> outputs{y.norm}, weights{Tensor(noise(of_x.shape(), kFloat32, 5).to(kGpu))};
  if (c.sum_used) {
    outputs.push_back(y.sum);
    weights.push_back(Tensor(noise(of_x.shape(), kFloat32, 6).to(kGpu)));
  }
  std::vector<Tensor> inputs{x, r, w};
  if (c.centered) inputs.push_back(b);
  const std::vector<Tensor> grads = grad(outputs, inputs, {.grad_outputs = weights});
  CHECK(grads[1].dtype() == c.residual);
  std::vector<Tensor> results{y.sum, y.norm};
  results.insert(results.end(), grads.begin(), grads.end());
  return results;
}

}  // namespace

TEST_CASE("a half and float32, added and normalised in one operation on the GPU: bits of two") {
  HERO_NEEDS_GPU();
  for (const SumsOf& c : {SumsOf{kBFloat16, true, true},
                          {kFloat16, true, true},
                          {kBFloat16, true, false},
                          {kFloat16, false, true}}) {
    // A warp a row with one pack a lane and with several, a block a row likewise, rows beyond its
    // registers; with and without packs.
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{70, 10},
                                  {5, 33},
                                  {9, 256},
                                  {3, 768},
                                  {3, 1025},
                                  {2, 2300},
                                  {1, 16500}}) {
      const Array x = noise({rows, n}), residual = noise({rows, n}, c.residual, 2);
      const std::vector<Tensor> found = sum_and_norm(x, residual, c, true);
      const std::vector<Tensor> expected = sum_and_norm(x, residual, c, false);
      for (size_t i = 0; i < found.size(); ++i) {
        INFO(name(c.residual) << " " << to_string(x.shape()) << ", result " << i);
        CHECK(same_bits(found[i].array(), expected[i].array().to(kCpu)));
      }
    }
  }
}

TEST_CASE("a step of GPT under autocast adds its residuals in the launches of its norms") {
  HERO_NEEDS_GPU();
  const Tensor tokens = reshape(remainder(arange(16) * 7, 11), {2, 8}).to(kGpu);
  const auto step = [&](bool hooked) {
    manual_seed(7);
    nn::GPT gpt({.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8});
    gpt.to(kGpu);
    if (hooked) {
      for (nn::Block& block : gpt.transformer.h) {
        block.norm_2.register_forward_hook([](auto&, const auto&, const auto&) {});
      }
    }
    cuda::GraphedStep graphed([&](const std::vector<Array>&) {
      Tensor loss;
      {
        const Autocast autocast;
        loss = gpt.loss(tokens, tokens);
      }
      const std::vector<Tensor> grads = grad({loss}, gpt.parameters());
      std::vector<Array> out{loss.array()};
      for (const Tensor& g : grads) out.push_back(g.array());
      return out;
    });
    std::vector<Array> out;
    for (int i = 0; i < 4; ++i) out = graphed({});
    CHECK(graphed.captured());
    for (Array& x : out) x = x.to(kCpu);
    return std::pair{graphed.nodes(), out};
  };
  const auto [nodes, found] = step(false);
  const auto [more, expected] = step(true);
  for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  // Of each of two norms' residuals: the sum, its gradient's sum, and that rounded. cusim also
  // poisons what memory the steps take first, and two operations take more.
  CHECK(nodes + 2 * 3 <= more);
}
