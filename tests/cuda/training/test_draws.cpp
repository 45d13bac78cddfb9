// Draws of distributions whose parameters are on the GPU: those of the host.
#include "cuda/gpu.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/distributions.h>
#include <hero/nn/nn.h>

using namespace hero;
using namespace hero::distributions;
using hero_test::kGpu;

namespace {

Tensor largest_gap(const Tensor& host, const Tensor& device) {
  CHECK(device.device() == kGpu);
  CHECK(device.dtype() == host.dtype());
  return max(abs(device.to(kCpu) - host) / (1e-300 + abs(host)));
}

}  // namespace

TEST_CASE("draws of distributions on the GPU are those of the host, and so are their gradients") {
  HERO_NEEDS_GPU();
  const auto a_on = [](Device device) {
    return tensor({0.3, 2.0, 70.0}, {.dtype = kFloat64, .device = device, .requires_grad = true});
  };
  const auto check_like = [&](const auto& draw) {
    const Tensor host_a = a_on(kCpu), device_a = a_on(kGpu);
    manual_seed(3);
    const Tensor host = draw(host_a);
    manual_seed(3);
    const Tensor device = draw(device_a);
    CHECK(largest_gap(host, device).item() < 1e-12);
    if (!host.requires_grad()) return;
    square(host).sum().backward();
    square(device).sum().backward();
    CHECK(largest_gap(host_a.grad(), device_a.grad()).item() < 1e-10);
  };
  check_like([](const Tensor& a) { return Gamma(a, 2 * a).rsample({50}); });
  check_like([](const Tensor& a) { return Beta(a, 2 * a).rsample({50}); });
  check_like([](const Tensor& a) { return Dirichlet(a).rsample({50}); });
  check_like([](const Tensor& a) { return StudentT(a, a, a).rsample({50}); });
  check_like([](const Tensor& a) { return Gumbel(a, a).rsample({50}); });
  check_like([](const Tensor& a) { return Gamma(a, a).cdf(a * 0.01 + 1); });
  check_like([](const Tensor& a) { return Poisson(a).sample({50}); });
  check_like([](const Tensor& a) { return Binomial(50, {.probs = a / 100}).sample({50}); });
  check_like([](const Tensor& a) { return Multinomial(50, {.probs = a}).sample({50}); });
  check_like([](const Tensor& a) { return Geometric({.probs = a / 100}).sample({50}); });
  check_like([](const Tensor& a) { return OneHotCategorical({.probs = a}).sample({50}); });
  check_like([](const Tensor& a) {
    return MixtureSameFamily(Categorical({.probs = a}), Normal(a, a)).sample({50});
  });
  check_like([](const Tensor& a) {
    const TransformedDistribution d(Normal(a, a), AffineTransform(0.1, -0.01), TanhTransform());
    return d.rsample_with_log_prob({50}).log_prob;
  });
}
