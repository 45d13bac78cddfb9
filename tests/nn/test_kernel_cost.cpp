// The flops of a GPT by the formulas of the literature.
#include <map>

#include <support/catch.h>
#include <support/half_products.h>
#include <support/kernel_cost.h>

#include <hero/core/device/planned_device.h>
#include <hero/core/functions/half_products.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using core::KernelKind;
using hero_test::CostSum;

int64_t products(const CostSum& sum) {
  return sum.flops_of(KernelKind::matmul) + sum.flops_of(KernelKind::attention);
}

// Forward and backward of one batch [B, T]; with hooks, which see all values, nothing is fused.
CostSum step_of(const nn::GPTConfig& config, int64_t B, Device device, bool hooked = false) {
  const nn::DeviceScope scope(device);
  nn::GPT model(config);
  for (nn::Module* module : model.modules()) {
    if (!hooked || module == &model) continue;
    module->register_forward_hook([](nn::Module&, const nn::Tensors&, const nn::Tensors&) {});
  }
  const Tensor tokens(Array::zeros({B, config.block_size}, kInt64, device));
  CostSum sum;
  const core::CostScope metered(&sum);
  model.loss(tokens, tokens).backward();
  return sum;
}

TEST_CASE("work: a GPT's step is 6 flops a weight and token, and attention by its pairs") {
  const nn::GPTConfig config = {
      .vocab_size = 50, .block_size = 16, .n_layer = 3, .n_head = 2, .n_embd = 32};
  const int64_t h = config.n_embd, T = config.block_size, L = config.n_layer, B = 4;
  const int64_t weights = L * 12 * h * h + config.vocab_size * h;  // that products read
  // Of a causal attention (T + 1) / 2 keys a query count: 12 L h T a token becomes 6 L h (T + 1).
  const int64_t attention = 6 * L * h * (T + 1);
  for (const Device device : {kCpu, kMeta}) {
    const CostSum sum = step_of(config, B, device);
    CHECK(products(sum) == B * T * (6 * weights + attention));
    CHECK(sum.flops_of(KernelKind::attention) == B * T * attention);
  }
}

TEST_CASE("work: a GPT that is not fused asks for the same products, and for all pairs of scores") {
  const nn::GPTConfig config = {.vocab_size = 50,
                                .block_size = 16,
                                .n_layer = 3,
                                .n_head = 2,
                                .n_embd = 32,
                                .dropout = 0.1};  // attention drops probabilities: it is composed
  const int64_t h = config.n_embd, T = config.block_size, L = config.n_layer, B = 4;
  const int64_t weights = L * 12 * h * h + config.vocab_size * h;
  for (const Device device : {kCpu, kMeta}) {
    const CostSum sum = step_of(config, B, device, true);
    CHECK(products(sum) == B * T * (6 * weights + 12 * L * h * T));
    CHECK(sum.flops_of(KernelKind::attention) == 0);
  }
}

TEST_CASE("work: the same step on meta and on the cpu asks for the same") {
  const nn::GPTConfig config = {
      .vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32};
  const CostSum real = step_of(config, 2, kCpu), planned = step_of(config, 2, kMeta);
  CHECK(real.flops == planned.flops);
  CHECK(real.bytes == planned.bytes);
  CHECK(real.launches == planned.launches);
}

TEST_CASE("work: halves on meta are a GPU's where they are planned for one, else the CPU's") {
  const nn::GPTConfig config = {
      .vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32};
  // of products and attention in a step of a model of bfloat16, by the dtype that they compute in
  const auto flops_of = [&](DType dtype) {
    const nn::DeviceScope scope(kMeta);
    nn::GPT model(config);
    model.to(kBFloat16);
    const Tensor tokens(Array::zeros({4, config.block_size}, kInt64, kMeta));
    struct ByDType : core::CostMeter {
      void charge(const core::KernelCost& cost) override {
        if (cost.kind <= KernelKind::attention) flops[cost.dtype] += cost.flops;
      }
      std::map<DType, int64_t> flops;
    } sum;
    const core::CostScope metered(&sum);
    model.loss(tokens, tokens).backward();
    return sum.flops[dtype];
  };
  CHECK((flops_of(kFloat32) == 0) == native_half_products());  // where the CPU multiplies them
  const test::HalfProductsScope scope(HalfProducts::portable);
  CHECK(core::kernels_of(kMeta) == DeviceType::cpu);
  CHECK(core::kernels_of(kCpu) == DeviceType::cpu);
  CHECK(flops_of(kFloat32) > 0);
  {
    const core::PlannedDevice planned(DeviceType::cuda);
    CHECK(core::kernels_of(kMeta) == DeviceType::cuda);
    CHECK(core::kernels_of(kCpu) == DeviceType::cpu);
    CHECK(flops_of(kFloat32) == 0);
    CHECK(flops_of(kBFloat16) > 0);
  }
  CHECK(flops_of(kFloat32) > 0);
  CHECK_THROWS_WITH(core::PlannedDevice(DeviceType::meta),
                    Catch::Matchers::ContainsSubstring("meta has no kernels"));
}

TEST_CASE("work: AdamW reads and writes parameter and states, and reads the gradient") {
  nn::Linear layer(64, 32, {.bias = false});
  layer(ones({1, 64})).sum().backward();
  optim::AdamW adamw(layer.parameters(), {.lr = 1e-3});
  adamw.step();  // makes the states
  CostSum sum;
  const core::CostScope scope(&sum);
  adamw.step();
  CHECK(sum.bytes_of(KernelKind::elementwise) == 64 * 32 * 4 * 7);
}

}  // namespace
