#pragma once
// The cases of tests/peers/run, written once for both sides: a Side names the tensor, and the
// functions that the two libraries spell differently.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "speed.h"
#include "speed_convolutions.h"
#include "speed_operators.h"

namespace peers {

using Work = std::function<void()>;
using Sizes = std::vector<int64_t>;

constexpr int kBatch = 1000;
constexpr int kChain = 20;
constexpr int64_t kCount = 10'000'000;

template <class Side>
struct SideCases {
  using Tensor = typename Side::Tensor;
  using List = std::vector<Tensor>;

  static Tensor one(double value, bool requires_grad = false) {
    return Side::full({1}, value).requires_grad_(requires_grad);
  }

  template <class Op>
  static Work repeat(const Op& op) {
    return [op] {
      for (int i = 0; i < kBatch; ++i) op();
    };
  }

  template <class Op>
  static Work without_grad(const Op& op) {
    return [op] {
      const typename Side::WithoutGrad without;
      op();
    };
  }

  // Makes the operands, and then what is timed: the gradients of `inputs` alone.
  template <class Operands, class Apply>
  static Case gradients(const Operands& operands, const Apply& apply) {
    return {1, [=]() -> Work {
              const List x = operands();
              for (const Tensor& each : x) each.requires_grad_();
              const Tensor y = apply(x), g = Side::values(Side::sizes(y)).to(y.dtype());
              return [=] { Side::grad(y, x, g); };
            }};
  }

  // f of random values of this shape.
  template <class F>
  static Case of(const Sizes& shape, const F& f) {
    return {1, [=] { return without_grad([f, x = Side::values(shape)] { f(x); }); }};
  }
  template <class F>
  static Case elementwise(const F& f) {
    return of({kCount}, f);
  }
  template <class F>
  static Case rows(const F& f) {
    return of({10'000, 1'000}, f);
  }

  // The norm of a batch's channels, and its gradients alone.
  static Case channel_norm(const Sizes& shape) {
    return {1, [=] {
              return without_grad([x = Side::values(shape), w = Side::full({shape[1]}, 1.0)] {
                Side::batch_norm(x, w, w);
              });
            }};
  }
  static Case channel_norm_back(const Sizes& shape) {
    return gradients(
        [=] {
          return List{Side::values(shape), Side::full({shape[1]}, 1.0),
                      Side::full({shape[1]}, 0.0)};
        },
        [](const List& x) { return Side::batch_norm(x[0], x[1], x[2]); });
  }

  // A convolution, and the gradients of its input and of its weight alone.
  template <class DType>
  static Cases convolutions(DType dtype, const std::string& suffix) {
    Cases all;
    for (const Convolution& c : kConvolutions) {
      const auto operand = [dtype](const Sizes& shape) { return Side::values(shape).to(dtype); };
      const std::string name = c.name;
      all[name + suffix] = {1, [=, &c] {
                              return without_grad([&c, x = operand(c.x), w = operand(c.w)] {
                                Side::convolution(c, x, w);
                              });
                            }};
      all[name + "_dx" + suffix] =
          gradients([=, &c] { return List{operand(c.x)}; },
                    [=, &c](const List& x) { return Side::convolution(c, x[0], operand(c.w)); });
      all[name + "_dw" + suffix] =
          gradients([=, &c] { return List{operand(c.w)}; },
                    [=, &c](const List& w) { return Side::convolution(c, operand(c.x), w[0]); });
    }
    return all;
  }

  // The operators of speed_operators.h, and the gradients of all that they take alone.
  static Cases operators() {
    Cases all;
    for (const auto& op : peers::operators<Side>()) {
      const auto operands = [shapes = op.shapes, is_half = op.is_half] {
        List list;
        for (const Sizes& shape : shapes) {
          list.push_back(Side::values(shape).to(is_half ? Side::kBFloat16 : Side::kFloat32));
        }
        return list;
      };
      all[op.name] = {1, [=] { return without_grad([op, x = operands()] { op.apply(x); }); }};
      if (op.has_gradient) all[op.name + std::string("_back")] = gradients(operands, op.apply);
    }
    return all;
  }

  // x [m, k] times w [k, n], or w [n, k] transposed.
  static Case product(int64_t m, int64_t k, int64_t n, bool transposed) {
    return {1, [=] {
              const Tensor x = Side::values({m, k});
              const Tensor w = transposed ? Side::values({n, k}).t() : Side::values({k, n});
              return without_grad([x, w] { matmul(x, w); });
            }};
  }

  static Work forward_backward() {
    return [p = one(1.5, true), q = one(1.01)] {
      Tensor r = p;
      for (int i = 0; i < kChain; ++i) r = r * q;
      r.backward();
    };
  }

  static Cases images() {
    const Sizes image = {8, 32, 64, 64}, volume = {2, 16, 16, 32, 32}, window = {32, 16, 3, 3, 3};
    return {
        {"bilinear_x2", of(image, [](const Tensor& x) { Side::bilinear_x2(x); })},
        {"bicubic_x2", of(image, [](const Tensor& x) { Side::bicubic_x2(x); })},
        {"nearest_x2", of(image, [](const Tensor& x) { Side::nearest_x2(x); })},
        {"conv3d", of(volume, [w = Side::values(window)](const Tensor& x) { Side::conv3d(x, w); })},
        {"conv3d_back", gradients(
                            [=] {
                              return List{Side::values(volume), Side::values(window)};
                            },
                            [](const List& x) { return Side::conv3d(x[0], x[1]); })},
        {"norm_56", channel_norm({32, 64, 56, 56})},
        {"norm_14", channel_norm({32, 256, 14, 14})},
        {"norm_28", channel_norm({64, 32, 28, 28})},
        {"norm_56_back", channel_norm_back({32, 64, 56, 56})},
        {"norm_14_back", channel_norm_back({32, 256, 14, 14})},
        {"norm_28_back", channel_norm_back({64, 32, 28, 28})},
    };
  }

  static Cases basics() {
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
        {"gelu_tanh", elementwise([](const Tensor& x) { Side::gelu_tanh(x); })},
        {"add", elementwise([](const Tensor& x) { x + x; })},
        {"sum_all", rows([](const Tensor& x) { sum(x); })},
        {"sum_rows", rows([](const Tensor& x) { x.sum({1}); })},
        {"sum_columns", rows([](const Tensor& x) { x.sum({0}); })},
        {"softmax", rows([](const Tensor& x) { softmax(x, 1); })},
        {"matmul_512", product(512, 512, 512, false)},
        {"matmul_1024", product(1024, 1024, 1024, false)},
        {"linear_64x784x512", product(64, 784, 512, true)},
        {"linear_1x4096x4096", product(1, 4096, 4096, true)},
        {"linear_8x4096x4096", product(8, 4096, 4096, true)},
        {"unique", of({1'000'000},
                      [](const Tensor& x) {
                        static const Tensor whole = (x * 100.0).to(Side::kInt64);
                        Side::unique(whole);
                      })},
        {"svd_256", of({256, 256}, [](const Tensor& x) { Side::svd(x); })},
        {"adamw", {1, [] { return Side::adamw(kCount); }}},
    };
  }
};

/// Answers for a side, see speed.h.
template <class Side>
int answer_for() {
  using All = SideCases<Side>;
  Cases all = All::basics();
  all.merge(All::images());
  all.merge(All::operators());
  all.merge(All::convolutions(Side::kFloat32, ""));
  all.merge(All::convolutions(Side::kBFloat16, "_bf16"));
  return answer(all, Side::set_threads);
}

}  // namespace peers
