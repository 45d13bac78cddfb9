// PyTorch's side of tests/peers/run, through its C++ interface: no interpreter between the calls,
// inference mode where nothing is recorded, the fused AdamW.
#include "speed.h"
#include "speed_convolutions.h"
#include "speed_operators_torch.h"
#include <ATen/Parallel.h>
#include <torch/torch.h>

namespace {

using torch::Tensor;
using Work = std::function<void()>;

constexpr int kBatch = 1000;
constexpr int kChain = 20;
constexpr int64_t kCount = 10'000'000;

Tensor one(double value, bool requires_grad = false) {
  return torch::full({1}, value, torch::requires_grad(requires_grad));
}

template <class Op>
Work repeat(const Op& op) {
  return [op] {
    for (int i = 0; i < kBatch; ++i) op();
  };
}

template <class Op>
Work without_grad(const Op& op) {
  return [op] {
    const c10::InferenceMode inference;
    op();
  };
}

Tensor values(at::IntArrayRef shape) { return torch::rand(shape) * 8.0 - 4.0; }

template <class Op>
peers::Case elementwise(const Op& op) {
  return {1, [op] { return without_grad([op, x = values({kCount})] { op(x); }); }};
}

template <class Op>
peers::Case rows(const Op& op) {
  return {1, [op] { return without_grad([op, x = values({10'000, 1'000})] { op(x); }); }};
}

template <class F>
peers::Case of(at::IntArrayRef shape, const F& f) {
  return {1, [f, sizes = shape.vec()] { return without_grad([f, x = values(sizes)] { f(x); }); }};
}

peers::Cases further() {
  const std::vector<double> twice = {2.0, 2.0};
  return {
      {"bilinear_x2", of({8, 32, 64, 64},
                         [twice](const Tensor& x) {
                           at::upsample_bilinear2d(x, at::OptionalIntArrayRef(), false, twice);
                         })},
      {"bicubic_x2", of({8, 32, 64, 64},
                        [twice](const Tensor& x) {
                          at::upsample_bicubic2d(x, at::OptionalIntArrayRef(), false, twice);
                        })},
      {"nearest_x2", of({8, 32, 64, 64},
                        [twice](const Tensor& x) {
                          at::upsample_nearest2d(x, at::OptionalIntArrayRef(), twice);
                        })},
      {"conv3d", of({2, 16, 16, 32, 32}, [w = values({32, 16, 3, 3, 3})](
                                             const Tensor& x) { at::conv3d(x, w, {}, 1, 1); })},
      {"unique", of({1'000'000},
                    [](const Tensor& x) {
                      static const Tensor whole = (x * 100.0).to(torch::kInt64);
                      at::_unique2(whole);
                    })},
      {"svd_256", of({256, 256}, [](const Tensor& x) { at::linalg_svd(x, false); })},
  };
}

peers::Case channel_norm(std::vector<int64_t> shape) {
  return {1, [=] {
            return without_grad([x = values(shape), w = torch::ones({shape[1]})] {
              at::batch_norm(x, w, w, {}, {}, true, 0.1, 1e-5, false);
            });
          }};
}
peers::Case channel_norm_back(std::vector<int64_t> shape) {
  return {1, [=]() -> Work {
            const Tensor x = values(shape).requires_grad_(), g = values(shape);
            const Tensor w = torch::ones({shape[1]}, torch::requires_grad());
            const Tensor b = torch::zeros({shape[1]}, torch::requires_grad());
            const Tensor y = at::batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5, false);
            return [=] { torch::autograd::grad({y}, {x, w, b}, {g}, true); };
          }};
}

// The gradients of a convolution of volumes alone.
peers::Case conv3d_back() {
  return {1, []() -> Work {
            const Tensor x = values({2, 16, 16, 32, 32}).requires_grad_();
            const Tensor w = values({32, 16, 3, 3, 3}).requires_grad_();
            const Tensor g = values({2, 32, 16, 32, 32}), y = at::conv3d(x, w, {}, 1, 1);
            return [=] { torch::autograd::grad({y}, {x, w}, {g}, true); };
          }};
}

// A convolution, and the gradients of its input and of its weight alone.
peers::Cases convolutions(torch::Dtype dtype, const std::string& suffix) {
  peers::Cases all;
  for (const peers::Convolution& c : peers::kConvolutions) {
    const auto apply = [&c](const Tensor& x, const Tensor& w) {
      return c.is_transposed ? at::conv_transpose2d(x, w, {}, c.stride, c.padding(), 0, c.groups)
                             : at::conv2d(x, w, {}, c.stride, c.padding(), 1, c.groups);
    };
    const auto operands = [&c, dtype] {
      return std::pair(values(c.x).to(dtype), values(c.w).to(dtype));
    };
    const auto gradient = [=](bool of_weight) {
      return peers::Case{1, [=]() -> Work {
                           auto [x, w] = operands();
                           const Tensor from = (of_weight ? w : x).requires_grad_();
                           const Tensor y = apply(x, w), g = values(y.sizes()).to(dtype);
                           return [=] { torch::autograd::grad({y}, {from}, {g}, true); };
                         }};
    };
    all[c.name + suffix] = {1, [=] {
                              const auto [x, w] = operands();
                              return without_grad([=, a = x, b = w] { apply(a, b); });
                            }};
    all[c.name + ("_dx" + suffix)] = gradient(false);
    all[c.name + ("_dw" + suffix)] = gradient(true);
  }
  return all;
}

// The operators of speed_operators.h, and the gradients of all that they take alone.
peers::Cases operators() {
  peers::Cases all;
  for (const auto& op : peers::operators<peers::Torch>()) {
    const auto operands = [shapes = op.shapes] {
      std::vector<Tensor> list;
      for (const auto& shape : shapes) list.push_back(values(shape));
      return list;
    };
    all[op.name] = {1, [=] { return without_grad([op, x = operands()] { op.apply(x); }); }};
    if (!op.has_gradient) continue;
    all[op.name + std::string("_back")] = {
        1, [=]() -> Work {
          const std::vector<Tensor> x = operands();
          for (const Tensor& one : x) one.requires_grad_();
          const Tensor y = op.apply(x), g = values(y.sizes());
          return [=] { torch::autograd::grad({y}, x, {g}, true, false, true); };
        }};
  }
  return all;
}

peers::Case product(int64_t m, int64_t k, int64_t n, bool transposed) {
  return {1, [=] {
            const Tensor x = values({m, k});
            const Tensor w = transposed ? values({n, k}).t() : values({k, n});
            return without_grad([x, w] { at::matmul(x, w); });
          }};
}

Work forward_backward() {
  return [p = one(1.5, true), q = one(1.01)] {
    Tensor r = p;
    for (int i = 0; i < kChain; ++i) r = r * q;
    r.backward();
  };
}

Work adamw() {
  struct State {
    std::vector<Tensor> params{torch::full({kCount}, 0.5)}, grads{torch::full({kCount}, 0.25)};
    std::vector<Tensor> means{torch::zeros({kCount})}, squares{torch::zeros({kCount})};
    std::vector<Tensor> none, steps{torch::ones({})};
  };
  auto state = std::make_shared<State>();
  return [state] {
    const torch::NoGradGuard no_grad;
    at::_fused_adamw_(state->params, state->grads, state->means, state->squares, state->none,
                      state->steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false);
  };
}

peers::Cases cases() {
  return {
      {"op_no_grad",
       {kBatch, [] { return without_grad(repeat([p = one(1.5), q = one(2.5)] { p* q; })); }}},
      {"op_no_grad_scalar",
       {kBatch, [] { return without_grad(repeat([p = one(1.5)] { p * 2.5; })); }}},
      {"op_recording",
       {kBatch, [] { return repeat([p = one(1.5, true), q = one(2.5)] { p* q; }); }}},
      {"op_forward_backward", {kChain, forward_backward}},
      {"exp", elementwise([](const Tensor& x) { at::exp(x); })},
      {"tanh", elementwise([](const Tensor& x) { at::tanh(x); })},
      {"gelu_erf", elementwise([](const Tensor& x) { at::gelu(x); })},
      {"gelu_tanh", elementwise([](const Tensor& x) { at::gelu(x, "tanh"); })},
      {"add", elementwise([](const Tensor& x) { x + x; })},
      {"sum_all", rows([](const Tensor& x) { at::sum(x); })},
      {"sum_rows", rows([](const Tensor& x) { at::sum(x, 1); })},
      {"sum_columns", rows([](const Tensor& x) { at::sum(x, 0); })},
      {"softmax", rows([](const Tensor& x) { at::softmax(x, 1); })},
      {"matmul_512", product(512, 512, 512, false)},
      {"matmul_1024", product(1024, 1024, 1024, false)},
      {"linear_64x784x512", product(64, 784, 512, true)},
      {"linear_1x4096x4096", product(1, 4096, 4096, true)},
      {"linear_8x4096x4096", product(8, 4096, 4096, true)},
      {"norm_56", channel_norm({32, 64, 56, 56})},
      {"norm_14", channel_norm({32, 256, 14, 14})},
      {"norm_28", channel_norm({64, 32, 28, 28})},
      {"norm_56_back", channel_norm_back({32, 64, 56, 56})},
      {"norm_14_back", channel_norm_back({32, 256, 14, 14})},
      {"norm_28_back", channel_norm_back({64, 32, 28, 28})},
      {"conv3d_back", conv3d_back()},
      {"adamw", {1, adamw}},
  };
}

}  // namespace

int main() {
  peers::Cases all = cases();
  all.merge(further());
  all.merge(operators());
  all.merge(convolutions(torch::kFloat32, ""));
  all.merge(convolutions(torch::kBFloat16, "_bf16"));
  return peers::answer(all, at::set_num_threads);
}
