// Halves through the fused operations of autograd: on a GPU they stay halves.
#include "cuda/close.h"

#include <hero/autograd/autocast.h>
#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>

using namespace hero;
using namespace hero_test;
using test::noise;

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
