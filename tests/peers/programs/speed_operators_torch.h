#pragma once
// What PyTorch spells in its own way among the operators that tests/peers/run times.
#include "speed_operators.h"
#include <torch/torch.h>

namespace peers {

/// `count` rows of a table in no order.
inline at::Tensor rows_of(const at::Tensor& table, int64_t count) {
  return at::remainder(at::arange(0, count, at::kLong) * 7919, table.size(0));
}

struct Torch {
  using Tensor = at::Tensor;

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
