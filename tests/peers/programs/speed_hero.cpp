// Hero's side of tests/peers/run.
#include "speed.h"
#include "speed_convolutions.h"
#include "speed_operators_hero.h"

#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>
#include <hero/optim/optim.h>

namespace {

using hero::NoGrad;
using hero::Tensor;
using Work = std::function<void()>;

constexpr int kBatch = 1000;
constexpr int kChain = 20;
constexpr int64_t kCount = 10'000'000;

Tensor one(double value, bool requires_grad = false) {
  return Tensor(hero::Array::full({1}, value), requires_grad);
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
    const NoGrad no_grad;
    op();
  };
}

// Values between -4 and 4 in no order.
Tensor values(const hero::Shape& shape) {
  std::vector<float> list(static_cast<size_t>(shape.numel()));
  uint32_t state = 1;
  for (float& value : list) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-21f - 4.0f;
  }
  return Tensor(hero::Array::from(list, shape));
}

template <class Op>
peers::Case elementwise(const Op& op) {
  return {1, [op] { return without_grad([op, x = values({kCount})] { op(x); }); }};
}

template <class Op>
peers::Case rows(const Op& op) {
  return {1, [op] { return without_grad([op, x = values({10'000, 1'000})] { op(x); }); }};
}

// f of random values of this shape.
template <class F>
peers::Case of(const hero::Shape& shape, const F& f) {
  return {1, [=] { return without_grad([f, x = values(shape)] { f(x); }); }};
}

peers::Cases further() {
  using hero::Interpolation;
  return {
      {"bilinear_x2", of({8, 32, 64, 64},
                         [](const Tensor& x) {
                           hero::interpolate(
                               x, {.scale_factor = {2.0}, .mode = Interpolation::bilinear});
                         })},
      {"bicubic_x2", of({8, 32, 64, 64},
                        [](const Tensor& x) {
                          hero::interpolate(
                              x, {.scale_factor = {2.0}, .mode = Interpolation::bicubic});
                        })},
      {"nearest_x2",
       of({8, 32, 64, 64}, [](const Tensor& x) { hero::interpolate(x, {.scale_factor = {2.0}}); })},
      {"conv3d", of({2, 16, 16, 32, 32},
                    [w = values({32, 16, 3, 3, 3})](const Tensor& x) {
                      hero::conv3d(x, w, {}, {.padding = {1, 1, 1}});
                    })},
      {"unique", of({1'000'000},
                    [](const Tensor& x) {
                      static const Tensor whole = (x * 100.0).to(hero::kInt64);
                      hero::unique(whole);
                    })},
      {"svd_256", of({256, 256}, [](const Tensor& x) { hero::svd(x); })},
  };
}

// The norm of a batch's channels, and its gradients alone.
peers::Case channel_norm(const hero::Shape& shape) {
  return {1, [=] {
            return without_grad([x = values(shape), w = one(1.0).expand({shape[1]}).clone()] {
              hero::batch_norm(x, {}, {}, {.weight = w, .bias = w, .training = true});
            });
          }};
}
peers::Case channel_norm_back(const hero::Shape& shape) {
  return {1, [=]() -> Work {
            const Tensor x = values(shape).requires_grad_(), g = values(shape);
            const Tensor w = Tensor(hero::Array::full({shape[1]}, 1.0), true);
            const Tensor b = Tensor(hero::Array::full({shape[1]}, 0.0), true);
            const Tensor y =
                hero::batch_norm(x, {}, {}, {.weight = w, .bias = b, .training = true});
            return [=] { hero::grad({y}, {x, w, b}, {.grad_outputs = {g}, .retain_graph = true}); };
          }};
}

// The gradients of a convolution of volumes alone.
peers::Case conv3d_back() {
  return {1, []() -> Work {
            const Tensor x = values({2, 16, 16, 32, 32}).requires_grad_();
            const Tensor w = values({32, 16, 3, 3, 3}).requires_grad_();
            const Tensor g = values({2, 32, 16, 32, 32});
            const Tensor y = hero::conv3d(x, w, {}, {.padding = {1, 1, 1}});
            return [=] { hero::grad({y}, {x, w}, {.grad_outputs = {g}, .retain_graph = true}); };
          }};
}

// A convolution, and the gradients of its input and of its weight alone.
peers::Cases convolutions(hero::DType dtype, const std::string& suffix) {
  peers::Cases all;
  for (const peers::Convolution& c : peers::kConvolutions) {
    const hero::Pair stride{c.stride, c.stride}, padding{c.padding()[0], c.padding()[1]};
    const auto apply = [=, &c](const Tensor& x, const Tensor& w) {
      if (c.is_transposed) {
        return hero::conv_transpose2d(x, w, {},
                                      {.stride = stride, .padding = padding, .groups = c.groups});
      }
      return hero::conv2d(x, w, {}, {.stride = stride, .padding = padding, .groups = c.groups});
    };
    const auto operands = [&c, dtype] {
      return std::pair(values(hero::Shape(c.x)).to(dtype), values(hero::Shape(c.w)).to(dtype));
    };
    const auto gradient = [=](bool of_weight) {
      return peers::Case{1, [=]() -> Work {
                           const auto [x, w] = operands();
                           const Tensor from = (of_weight ? w : x).detach().requires_grad_();
                           const Tensor y = of_weight ? apply(x, from) : apply(from, w);
                           const Tensor g = values(y.shape()).to(dtype);
                           return [=] {
                             hero::grad({y}, {from}, {.grad_outputs = {g}, .retain_graph = true});
                           };
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
  for (const auto& op : peers::operators<peers::Hero>()) {
    const auto operands = [shapes = op.shapes] {
      std::vector<Tensor> list;
      for (const auto& shape : shapes) list.push_back(values(hero::Shape(shape)));
      return list;
    };
    all[op.name] = {1, [=] { return without_grad([op, x = operands()] { op.apply(x); }); }};
    if (!op.has_gradient) continue;
    all[op.name + std::string("_back")] = {
        1, [=]() -> Work {
          const std::vector<Tensor> x = operands();
          for (const Tensor& one : x) one.requires_grad_();
          const Tensor y = op.apply(x), g = values(y.shape());
          return [=] {
            hero::grad({y}, x, {.grad_outputs = {g}, .retain_graph = true, .allow_unused = true});
          };
        }};
  }
  return all;
}

// x [m, k] times w [k, n], or w [n, k] transposed.
peers::Case product(int64_t m, int64_t k, int64_t n, bool transposed) {
  return {1, [=] {
            const Tensor x = values({m, k});
            const Tensor w = transposed ? values({n, k}).t() : values({k, n});
            return without_grad([x, w] { matmul(x, w); });
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
  const Tensor x(hero::Array::full({kCount}, 0.5), true);
  x.set_grad(Tensor(hero::Array::full({kCount}, 0.25)));
  auto optimizer = std::make_shared<hero::optim::AdamW>(std::vector<Tensor>{x});
  return [optimizer] { optimizer->step(); };
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
      {"exp", elementwise([](const Tensor& x) { exp(x); })},
      {"tanh", elementwise([](const Tensor& x) { tanh(x); })},
      {"gelu_erf", elementwise([](const Tensor& x) { gelu(x); })},
      {"gelu_tanh", elementwise([](const Tensor& x) { gelu(x, hero::Gelu::tanh); })},
      {"add", elementwise([](const Tensor& x) { x + x; })},
      {"sum_all", rows([](const Tensor& x) { sum(x); })},
      {"sum_rows", rows([](const Tensor& x) { sum(x, {1}); })},
      {"sum_columns", rows([](const Tensor& x) { sum(x, {0}); })},
      {"softmax", rows([](const Tensor& x) { softmax(x, 1); })},
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
  all.merge(convolutions(hero::kFloat32, ""));
  all.merge(convolutions(hero::kBFloat16, "_bf16"));
  return peers::answer(all, hero::set_num_threads);
}
