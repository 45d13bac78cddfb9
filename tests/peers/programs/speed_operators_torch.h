#pragma once
// What PyTorch spells in its own way among the cases of tests/peers/run.
#include "speed_cases.h"
#include <ATen/Parallel.h>
#include <torch/torch.h>

namespace peers {

/// `count` rows of a table in no order.
inline at::Tensor rows_of(const at::Tensor& table, int64_t count) {
  return at::remainder(at::arange(0, count, at::kLong) * 7919, table.size(0));
}

struct Torch {
  using Tensor = at::Tensor;
  using WithoutGrad = c10::InferenceMode;
  static constexpr auto kInt64 = at::kLong, kFloat32 = at::kFloat, kBFloat16 = at::kBFloat16;
  static constexpr auto set_threads = at::set_num_threads;

  static Sizes sizes(const Tensor& x) { return x.sizes().vec(); }
  static Tensor full(const Sizes& sizes, double value) { return torch::full(sizes, value); }
  static Tensor values(const Sizes& sizes) { return torch::rand(sizes) * 8.0 - 4.0; }
  static void grad(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& g) {
    torch::autograd::grad({y}, inputs, {g}, true, false, true);
  }
  static Work adamw(int64_t count) {
    struct State {
      std::vector<Tensor> params, grads, means, squares, none, steps{torch::ones({})};
    };
    const auto list = [&](double value) { return std::vector<Tensor>{full({count}, value)}; };
    auto state = std::make_shared<State>(State{list(0.5), list(0.25), list(0.0), list(0.0)});
    return [state] {
      const torch::NoGradGuard no_grad;
      at::_fused_adamw_(state->params, state->grads, state->means, state->squares, state->none,
                        state->steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false);
    };
  }

  static Tensor gelu_tanh(const Tensor& x) { return at::gelu(x, "tanh"); }
  static std::vector<double> twice() { return {2.0, 2.0}; }
  static Tensor nearest_x2(const Tensor& x) {
    return at::upsample_nearest2d(x, at::OptionalIntArrayRef(), twice());
  }
  static Tensor bilinear_x2(const Tensor& x) {
    return at::upsample_bilinear2d(x, at::OptionalIntArrayRef(), false, twice());
  }
  static Tensor bicubic_x2(const Tensor& x) {
    return at::upsample_bicubic2d(x, at::OptionalIntArrayRef(), false, twice());
  }
  static Tensor batch_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return at::batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5, false);
  }
  static Tensor conv3d(const Tensor& x, const Tensor& w) { return at::conv3d(x, w, {}, 1, 1); }
  static Tensor convolution(const Convolution& c, const Tensor& x, const Tensor& w) {
    return c.is_transposed ? at::conv_transpose2d(x, w, {}, c.stride, c.padding(), 0, c.groups)
                           : at::conv2d(x, w, {}, c.stride, c.padding(), 1, c.groups);
  }
  static void unique(const Tensor& x) { at::_unique2(x); }
  static void svd(const Tensor& x) { at::linalg_svd(x, false); }

  static Tensor pad_zeros(const Tensor& x) { return at::constant_pad_nd(x, {1, 1, 1, 1}); }
  static Tensor pad_reflect(const Tensor& x) { return at::reflection_pad2d(x, {1, 1, 1, 1}); }
  static Tensor pad_replicate(const Tensor& x) { return at::replication_pad2d(x, {1, 1, 1, 1}); }
  static Tensor contiguous(const Tensor& x) { return x.contiguous(); }
  static Tensor transposed(const Tensor& x) { return x.transpose(-1, -2); }
  static Tensor cat(const std::vector<Tensor>& x, int64_t dim) { return at::cat(x, dim); }
  static Tensor stack(const std::vector<Tensor>& x, int64_t dim) { return at::stack(x, dim); }
  static Tensor embedding(const Tensor& w, int64_t count) {
    return at::embedding(w, rows_of(w, count));
  }
  static Tensor index_select(const Tensor& x, int64_t count) {
    return at::index_select(x, 0, rows_of(x, count));
  }
  static Tensor grid_sample(const Tensor& x, const Tensor& grid) {
    return at::grid_sampler(x, grid, 0, 0, false);
  }
  static Tensor unfold(const Tensor& x) { return at::im2col(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}); }
  static Tensor bce_with_logits(const Tensor& x, const Tensor& y) {
    return at::binary_cross_entropy_with_logits(x, y);
  }
  static Tensor logsigmoid(const Tensor& x) { return at::log_sigmoid(x); }
  static Tensor poisson_nll(const Tensor& x, const Tensor& y) {
    return at::poisson_nll_loss(x, y, true, false, 1e-8, 1);
  }
  static Tensor median(const Tensor& x, int64_t dim) { return std::get<0>(at::median(x, dim)); }
  static Tensor kthvalue(const Tensor& x, int64_t k, int64_t dim) {
    return std::get<0>(at::kthvalue(x, k, dim));
  }
  static Tensor sort(const Tensor& x, int64_t dim) { return std::get<0>(at::sort(x, dim)); }
  static Tensor topk(const Tensor& x, int64_t k) { return std::get<0>(at::topk(x, k)); }
  static Tensor bincount(const Tensor& x) {
    return at::bincount(((x + 4.0) * 100.0).to(at::kLong));
  }
  static Tensor cross_entropy(const Tensor& x) {
    return at::cross_entropy_loss(x, rows_of(x.t(), x.size(0)));
  }
  static Tensor cross_entropy_planes(const Tensor& x) {
    const at::Tensor target =
        at::remainder(at::arange(0, x.numel() / x.size(1), at::kLong) * 7919, x.size(1));
    return at::cross_entropy_loss(x, target.reshape({x.size(0), x.size(2), x.size(3)}));
  }
  static Tensor layer_norm(const Tensor& x) { return at::layer_norm(x, {x.size(-1)}); }
  static Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return at::layer_norm(x, {x.size(-1)}, w, b);
  }
  static Tensor group_norm(const Tensor& x, const Tensor& w, const Tensor& b) {
    return at::group_norm(x, 32, w, b);
  }
  static Tensor instance_norm(const Tensor& x) {
    return at::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false);
  }
  static Tensor places(const Tensor& x) {
    const WithoutGrad for_both(false);  // what is made without gradients cannot be saved for one
    static const Tensor found =
        at::remainder(at::arange(0, x.numel(), at::kLong) * 7919, x.size(0));
    return found.reshape(x.sizes());
  }
  static Tensor index_add(const Tensor& x, const Tensor& rows) {
    return at::index_add(x, 0, rows_of(x, rows.size(0)), rows);
  }
  static Tensor max_pool(const Tensor& x) { return at::max_pool2d(x, 2); }
  static Tensor avg_pool(const Tensor& x) { return at::avg_pool2d(x, 2); }
  static Tensor cosine(const Tensor& x, const Tensor& y) { return at::cosine_similarity(x, y); }
  static Tensor eye(int64_t n) { return at::eye(n); }
  static Tensor solve(const Tensor& a, const Tensor& b) { return at::linalg_solve(a, b); }
  static Tensor inverse(const Tensor& a) { return at::linalg_inv(a); }
  static Tensor cholesky(const Tensor& a) { return at::linalg_cholesky(a); }
  static Tensor eigh(const Tensor& a) { return std::get<0>(at::linalg_eigh(a)); }
  static Tensor qr(const Tensor& a) { return std::get<1>(at::linalg_qr(a)); }
  static Tensor det(const Tensor& a) { return at::linalg_det(a); }
  static Tensor einsum(const char* equation, const std::vector<Tensor>& x) {
    return at::einsum(equation, x);
  }
  static Tensor conv_dilated(const Tensor& x, const Tensor& w) {
    return at::conv2d(x, w, {}, 1, 2, 2);
  }
  static Tensor conv1d(const Tensor& x, const Tensor& w) { return at::conv1d(x, w, {}, 1, 2); }
};

}  // namespace peers
