// Gradients clipped on the GPU: the bits of the CPU, few launches, and no waiting for the host.
#include <cmath>
#include <limits>

#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/autograd/autograd.h>
#include <hero/cuda/graph.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using hero::test::awkward;
using hero::test::noise;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor with_gradient(const Array& param, const Array& gradient) {
  const Tensor x(param, true);
  x.set_grad(Tensor(gradient));
  return x;
}

// The same gradients here and there: of all dtypes, more of float32 than a launch takes, empty ones
// and ones off their vectors or with gaps among them.
struct Gradients {
  std::vector<Tensor> here, there;

  Gradients() {
    constexpr DType kFloats[] = {kFloat32, kBFloat16, kFloat64, kFloat16};
    for (int64_t i = 0; i < 220; ++i) {
      const DType dtype = kFloats[i < 180 ? 0 : i % 4];
      const int64_t n = i % 9 == 4 ? 0 : i == 33 ? 9001 : i * 11 % 61;
      Array g = noise({n + 1}, dtype, static_cast<uint64_t>(i)).slice(0, i % 2, n + i % 2);
      if (i == 50 || i == 217) g = awkward(noise({5, 7}, dtype));
      const Array param = Array::zeros(g.shape(), dtype);
      here.push_back(with_gradient(param, g));
      there.push_back(with_gradient(param.to(kGpu), on_gpu(g)));
    }
  }
  void check_same() const {
    for (size_t i = 0; i < here.size(); ++i) {
      INFO("gradient " << i);
      CHECK(same_bits(there[i].grad().array(), here[i].grad().array()));
    }
  }
};

}  // namespace

TEST_CASE("clipping on the GPU gives the CPU's norm and gradients, bit for bit") {
  HERO_NEEDS_GPU();
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    for (const double max_norm : {0.0, 1.5, 1e9}) {
      INFO("p " << p << ", at most " << max_norm);
      const Gradients g;
      const Tensor there = optim::clip_grad_norm(g.there, max_norm, {.norm = p});
      const Tensor here = optim::clip_grad_norm(g.here, max_norm, {.norm = p});
      CHECK(there.device() == kGpu);
#if !defined(HERO_TEST_CUSIM)
      if (p == 3.0) {  // pow is CUDA's there
        CHECK(std::fabs(there.item() - here.item()) <= 4 * 0x1p-52 * here.item());
        continue;
      }
#endif
      CHECK(same_bits(there.array(), here.array()));
      g.check_same();
    }
  }
}

TEST_CASE("a norm that is not finite reaches the gradients on the GPU, or is an error before") {
  HERO_NEEDS_GPU();
  for (const double bad : {kInfinity, std::nan("")}) {
    const Gradients g;
    core::backend(kCpu).run(core::call::Fill{g.here[33].grad().array().slice(0, 70, 71), bad});
    core::backend(kGpu).run(core::call::Fill{g.there[33].grad().array().slice(0, 70, 71), bad});
    CHECK_THROWS_WITH(optim::clip_grad_norm(g.there, 1.0, {.error_if_nonfinite = true}),
                      ContainsSubstring("clip_grad_norm: the norm of the gradients is"));
    g.check_same();
    const Tensor here = optim::clip_grad_norm(g.here, 1.0);
    CHECK(same_bits(optim::clip_grad_norm(g.there, 1.0).array(), here.array()));
    g.check_same();
  }
}

TEST_CASE("a norm of the host clips gradients on the GPU") {
  HERO_NEEDS_GPU();
  const Gradients g;
  for (const auto& params : {g.here, g.there}) {
    optim::clip_grads_with_norm(params, 1.0, tensor({8.0}));
  }
  g.check_same();
}

TEST_CASE("clipping and AdamW of GPT-2's 148 parameters are a few launches that need no host") {
  HERO_NEEDS_GPU();
  std::vector<Tensor> here, there;
  for (int64_t i = 0; i < 148; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Array param = noise({i * 7 % 40 + 1}, kFloat32, seed);
    here.push_back(with_gradient(param, noise(param.shape(), kFloat32, seed + 1000)));
    there.push_back(with_gradient(param.to(kGpu), here.back().grad().array().to(kGpu)));
  }
  optim::AdamW expected(here), adamw(there);
  cuda::GraphedStep step(
      [&](const std::vector<Array>&) {
        const Tensor norm = optim::clip_grad_norm(there, 4.0);
        adamw.step();
        return std::vector<Array>{norm.array()};
      },
      {.recapture = true});
  for (int i = 0; i < 5; ++i) {
    const Tensor norm = optim::clip_grad_norm(here, 4.0);
    expected.step();
    CHECK(step({})[0].item() == norm.item());
  }
  CHECK(step.captured());
  // Zeros, squares, root, scaling, and three of AdamW; cusim also poisons two blocks.
  CHECK(step.nodes() <= 7 + 2);
  for (size_t i = 0; i < here.size(); ++i) {
    CHECK(same_bits(there[i].array(), here[i].array()));
    CHECK(same_bits(there[i].grad().array(), here[i].grad().array()));
  }
}
