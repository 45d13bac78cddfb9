// What a GPT-2 is made of at the size it has there, in halves and float32, beside float32 on the
// CPU. A simulated GPU runs the same lines at sizes that it can.
#include "cuda/close.h"
#include "support/graph.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/device/backend.h>
#include <hero/core/random.h>
#include <hero/nn/gpt.h>

using namespace hero;
using namespace hero_test;

namespace {

#ifdef HERO_TEST_CUSIM
constexpr bool kFull = false;
#else
constexpr bool kFull = true;
#endif

int64_t size(int64_t full, int64_t small) { return kFull ? full : small; }

// Results are float32's rounded once; gradients of halves are made of rounded factors, too.
constexpr double kResult = 1.0, kGradient = 2.0;
// Sums of some thousand float32 in another order than the CPU's: roundings of random sign grow with
// the square root of their number, 64 * 2^-24 and less.
double near_of(DType dtype) { return dtype == kFloat32 ? 0x1p-18 : allowed(dtype); }

// Random values as `dtype` has them, the same on every device.
Tensor drawn(const Shape& shape, DType dtype) { return randn(shape).to(dtype).detach(); }
Tensor leaf(const Tensor& x, DType dtype, Device device) {
  return Tensor(x.array().to(dtype).to(device).clone()).requires_grad_();
}

using Run = std::function<std::vector<Tensor>(const std::vector<Tensor>& leaves)>;

// Results of `run` and the leaves' gradients on the GPU in `dtype` beside the CPU's in float32. The
// first result's gradient is `g`.
void compare(DType dtype, const std::vector<Tensor>& inputs, const Tensor& g, const Run& run) {
  std::vector<Array> results[2], gradients[2];
  for (const bool gpu : {false, true}) {
    const Device device = gpu ? kGpu : kCpu;
    const DType as = gpu ? dtype : kFloat32;
    std::vector<Tensor> leaves;
    for (const Tensor& x : inputs) leaves.push_back(leaf(x, as, device));
    const std::vector<Tensor> made = run(leaves);
    for (const Tensor& x : made) results[gpu].push_back(x.array());
    const Tensor seed = Tensor(g.array().to(as).to(device));
    for (const Tensor& x : grad({made[0]}, leaves, {.grad_outputs = {seed}})) {
      gradients[gpu].push_back(x.array());
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    INFO(name(dtype) << ", result " << i);
    CHECK(distance(results[1][i], results[0][i]) <= kResult * near_of(dtype));
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    INFO(name(dtype) << ", gradient " << i);
    CHECK(distance(gradients[1][i], gradients[0][i]) <= kGradient * near_of(dtype));
  }
}

}  // namespace

TEST_CASE("attention at model size is float32's on the CPU, forward and backward", "[model]") {
  HERO_NEEDS_GPU();
  manual_seed(1);
  const Shape shape{size(2, 1), size(12, 2), size(1024, 80), 64};
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(drawn(shape, dtype));
    compare(dtype, inputs, drawn(shape, dtype), [](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{
          scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true})};
    });
  }
}

TEST_CASE("a residual and its norm at model size are float32's on the CPU", "[model]") {
  HERO_NEEDS_GPU();
  manual_seed(2);
  const int64_t rows = size(4096, 8), C = 768;
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    const std::vector<Tensor> inputs = {drawn({rows, C}, dtype), drawn({rows, C}, dtype),
                                        drawn({C}, dtype), drawn({C}, dtype)};
    compare(dtype, inputs, drawn({rows, C}, dtype), [&](const std::vector<Tensor>& x) {
      const auto [sum, y] = add_layer_norm(x[0], x[1], {C}, x[2], x[3]);
      return std::vector<Tensor>{y, sum};
    });
  }
}

TEST_CASE("products at model size are float32's on the CPU, whichever factor is turned",
          "[model]") {
  HERO_NEEDS_GPU();
  manual_seed(3);
  const int64_t m = size(4096, 48), n = size(3072, 40), k = size(768, 24);
  for (const DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        INFO("turned: " << turn_a << " " << turn_b);
        const std::vector<Tensor> inputs = {drawn(turn_a ? Shape{k, m} : Shape{m, k}, dtype),
                                            drawn(turn_b ? Shape{n, k} : Shape{k, n}, dtype)};
        compare(dtype, inputs, drawn({m, n}, dtype), [&](const std::vector<Tensor>& x) {
          return std::vector<Tensor>{matmul(turn_a ? x[0].t() : x[0], turn_b ? x[1].t() : x[1])};
        });
      }
    }
    const std::vector<Tensor> layer = {drawn({m, k}, dtype), drawn({n, k}, dtype),
                                       drawn({n}, dtype)};
    compare(dtype, layer, drawn({m, n}, dtype), [](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{linear(x[0], x[1], x[2])};
    });
  }
}

TEST_CASE("a GPT of two layers at model size has the CPU's loss and gradients", "[model]") {
  HERO_NEEDS_GPU();
  const int64_t B = size(2, 1), T = size(256, 16);
  const nn::GPTConfig config{.vocab_size = size(50304, 96),
                             .block_size = T,
                             .n_layer = 2,
                             .n_head = size(12, 2),
                             .n_embd = size(768, 32)};
  // losses are sums of some hundred rows; gradients pass two blocks, whose values autocast rounds
  // to bfloat16 at some ten places each
  struct Way {
    bool cast;
    double loss, gradient;
  };
  std::vector<Array> expected;
  for (const Way way :
       {Way{false, 0, 0}, Way{false, 0x1p-20, 0x1p-15}, Way{true, 0x1p-9, 0x1p-5}}) {
    const bool gpu = !expected.empty();
    const Device device = gpu ? kGpu : kCpu;
    manual_seed(4);
    const nn::DeviceScope scope(device);
    nn::GPT model(config);
    const Tensor tokens = randint(0, config.vocab_size, {B, T}, {.device = device});
    const Tensor targets = randint(0, config.vocab_size, {B, T}, {.device = device});
    Tensor loss;
    {
      const Autocast bfloat16({.enabled = way.cast});
      loss = model.loss(tokens, targets);
    }
    loss.backward();
    std::vector<Array> got = {loss.array()};
    for (const Tensor& p : model.parameters()) got.push_back(p.grad().array());
    if (!gpu) {
      expected = got;
      continue;
    }
    INFO((way.cast ? "under autocast" : "in float32"));
    REQUIRE(got.size() == expected.size());
    CHECK(distance(got[0], expected[0]) <= way.loss);
    for (size_t i = 1; i < got.size(); ++i) {
      INFO("the gradient of parameter " << i << ", " << to_string(got[i].shape()));
      CHECK(distance(got[i], expected[i]) <= way.gradient);
    }
  }
}

TEST_CASE("attention of halves to no keys at all is 0, and queries do not come behind it") {
  HERO_NEEDS_GPU();
  // autograd refuses it, the backend is asked by others, too: the results take the queries' place
  const Array q = test::noise({1, 2, 70, 64}, kBFloat16).to(kGpu);
  const Array none = Array::empty({1, 2, 0, 64}, kBFloat16, kGpu);
  const Array out = q.empty_like();
  const Array log_sum = Array::empty({1, 2, 70}, kFloat32, kGpu);
  core::AttentionScores scores;
  scores.scale = 0.125;
  core::backend(kGpu).run(core::call::Attention{scores, q, none, none, out, log_sum});
  for (const double value : out.to(kCpu).to(kFloat64).to_vector<double>()) {
    if (value != 0.0) FAIL("a result of no keys is " << value);
  }
}
