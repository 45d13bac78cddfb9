#pragma once
// What Hero spells in its own way among the cases of tests/peers/run.
#include "speed_cases.h"

#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>
#include <hero/optim/optim.h>

namespace peers {

/// `count` rows of a table in no order.
inline hero::Tensor rows_of(const hero::Tensor& table, int64_t count) {
  const hero::Tensor steps = hero::arange(0, count).to(hero::kInt64);
  return hero::remainder(steps * 7919, table.size(0));
}

struct Hero {
  using Tensor = hero::Tensor;
  using WithoutGrad = hero::NoGrad;
  static constexpr auto kInt64 = hero::kInt64, kFloat32 = hero::kFloat32,
                        kBFloat16 = hero::kBFloat16;
  static constexpr auto set_threads = hero::set_num_threads;

  static Sizes sizes(const Tensor& x) { return {x.shape().begin(), x.shape().end()}; }
  static Tensor full(const Sizes& sizes, double value) {
    return Tensor(hero::Array::full(hero::Shape(sizes), value));
  }
  /// Values between -4 and 4 in no order.
  static Tensor values(const Sizes& sizes) {
    const hero::Shape shape(sizes);
    std::vector<float> list(static_cast<size_t>(shape.numel()));
    uint32_t state = 1;
    for (float& value : list) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-21f - 4.0f;
    }
    return Tensor(hero::Array::from(list, shape));
  }
  static void grad(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& g) {
    hero::grad({y}, inputs, {.grad_outputs = {g}, .retain_graph = true, .allow_unused = true});
  }
  static Work adamw(int64_t count) {
    const Tensor x = full({count}, 0.5).requires_grad_();
    x.set_grad(full({count}, 0.25));
    auto optimizer = std::make_shared<hero::optim::AdamW>(std::vector<Tensor>{x});
    return [optimizer] { optimizer->step(); };
  }

  static Tensor gelu_tanh(const Tensor& x) { return hero::gelu(x, hero::Gelu::tanh); }
  static Tensor scaled(const Tensor& x, hero::Interpolation mode) {
    return hero::interpolate(x, {.scale_factor = {2.0}, .mode = mode});
  }
  static Tensor nearest_x2(const Tensor& x) { return scaled(x, hero::Interpolation::nearest); }
  static Tensor bilinear_x2(const Tensor& x) { return scaled(x, hero::Interpolation::bilinear); }
  static Tensor bicubic_x2(const Tensor& x) { return scaled(x, hero::Interpolation::bicubic); }
  static Tensor batch_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return hero::batch_norm(x, {}, {}, {.weight = w, .bias = b, .training = true});
  }
  static Tensor conv3d(const Tensor& x, const Tensor& w) {
    return hero::conv3d(x, w, {}, {.padding = {1, 1, 1}});
  }
  static Tensor convolution(const Convolution& c, const Tensor& x, const Tensor& w) {
    const hero::Pair stride{c.stride, c.stride}, padding{c.padding()[0], c.padding()[1]};
    if (c.is_transposed) {
      return hero::conv_transpose2d(x, w, {},
                                    {.stride = stride, .padding = padding, .groups = c.groups});
    }
    return hero::conv2d(x, w, {}, {.stride = stride, .padding = padding, .groups = c.groups});
  }
  static void unique(const Tensor& x) { hero::unique(x); }
  static void svd(const Tensor& x) { hero::svd(x); }

  static Tensor padded(const Tensor& x, hero::PadMode mode) { return pad(x, {1, 1, 1, 1}, mode); }
  static Tensor pad_zeros(const Tensor& x) { return padded(x, hero::PadMode::constant); }
  static Tensor pad_reflect(const Tensor& x) { return padded(x, hero::PadMode::reflect); }
  static Tensor pad_replicate(const Tensor& x) { return padded(x, hero::PadMode::replicate); }
  static Tensor contiguous(const Tensor& x) { return x.contiguous(); }
  static Tensor transposed(const Tensor& x) { return x.transpose(-1, -2); }
  static Tensor cat(const std::vector<Tensor>& x, int64_t dim) { return hero::cat(x, dim); }
  static Tensor stack(const std::vector<Tensor>& x, int64_t dim) { return hero::stack(x, dim); }
  static Tensor embedding(const Tensor& w, int64_t count) {
    return hero::embedding(w, rows_of(w, count));
  }
  static Tensor index_select(const Tensor& x, int64_t count) {
    return hero::index_select(x, 0, rows_of(x, count));
  }
  static Tensor grid_sample(const Tensor& x, const Tensor& grid) {
    return hero::grid_sample(x, grid);
  }
  static Tensor unfold(const Tensor& x) { return hero::unfold(x, {3, 3}, {.padding = {1, 1}}); }
  static Tensor bce_with_logits(const Tensor& x, const Tensor& y) {
    return hero::binary_cross_entropy_with_logits(x, y);
  }
  static Tensor logsigmoid(const Tensor& x) { return hero::logsigmoid(x); }
  static Tensor poisson_nll(const Tensor& x, const Tensor& y) {
    return hero::poisson_nll_loss(x, y);
  }
  static Tensor median(const Tensor& x, int64_t dim) { return hero::median(x, dim).values; }
  static Tensor kthvalue(const Tensor& x, int64_t k, int64_t dim) {
    return hero::kthvalue(x, k, dim).values;
  }
  static Tensor sort(const Tensor& x, int64_t dim) { return hero::sort(x, dim).values; }
  static Tensor topk(const Tensor& x, int64_t k) { return hero::topk(x, k).values; }
  static Tensor bincount(const Tensor& x) {
    return hero::bincount(((x + 4.0) * 100.0).to(hero::kInt64));
  }
  static Tensor cross_entropy(const Tensor& x) {
    return hero::cross_entropy(x, rows_of(x.t(), x.size(0)));
  }
  static Tensor cross_entropy_planes(const Tensor& x) {
    const hero::Tensor target =
        hero::remainder(hero::arange(0, x.numel() / x.size(1)).to(hero::kInt64) * 7919, x.size(1));
    return hero::cross_entropy(x, target.reshape({x.size(0), x.size(2), x.size(3)}));
  }
  static Tensor layer_norm(const Tensor& x) { return hero::layer_norm(x, {x.size(-1)}); }
  static Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return hero::layer_norm(x, {x.size(-1)}, w, b);
  }
  static Tensor group_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return hero::group_norm(x, 32, w, b);
  }
  static Tensor instance_norm(const Tensor& x) { return hero::instance_norm(x); }
  /// Of each element of x, a row that it is read from or brought to.
  static Tensor places(const Tensor& x) {
    static const Tensor found =
        hero::remainder(hero::arange(0, x.numel()).to(hero::kInt64) * 7919, x.size(0));
    return found.reshape(x.shape());
  }
  static Tensor index_add(const Tensor& x, const Tensor& rows) {
    return hero::index_add(x, 0, rows_of(x, rows.size(0)), rows);
  }
  static Tensor max_pool(const Tensor& x) { return hero::max_pool2d(x, 2); }
  static Tensor avg_pool(const Tensor& x) { return hero::avg_pool2d(x, 2); }
  static Tensor cosine(const Tensor& x, const Tensor& y) { return hero::cosine_similarity(x, y); }
  static Tensor eye(int64_t n) { return hero::eye(n); }
  static Tensor solve(const Tensor& a, const Tensor& b) { return hero::solve(a, b); }
  static Tensor inverse(const Tensor& a) { return hero::inv(a); }
  static Tensor cholesky(const Tensor& a) { return hero::cholesky(a); }
  static Tensor eigh(const Tensor& a) { return hero::eigh(a).eigenvalues; }
  static Tensor qr(const Tensor& a) { return hero::qr(a).r; }
  static Tensor det(const Tensor& a) { return hero::det(a); }
  static Tensor einsum(const char* equation, const std::vector<Tensor>& x) {
    return hero::einsum(equation, x);
  }
  static Tensor conv_dilated(const Tensor& x, const Tensor& w) {
    return hero::conv2d(x, w, {}, {.padding = {2, 2}, .dilation = {2, 2}});
  }
  static Tensor conv1d(const Tensor& x, const Tensor& w) {
    return hero::conv1d(x, w, {}, {.padding = 2});
  }
};

}  // namespace peers
