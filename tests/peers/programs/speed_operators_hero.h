#pragma once
// What Hero spells in its own way among the operators that tests/peers/run times.
#include "speed_operators.h"

#include <hero/autograd/autograd.h>

namespace peers {

/// `count` rows of a table in no order.
inline hero::Tensor rows_of(const hero::Tensor& table, int64_t count) {
  const hero::Tensor steps = hero::arange(0, count).to(hero::kInt64);
  return hero::remainder(steps * 7919, table.size(0));
}

struct Hero {
  using Tensor = hero::Tensor;

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
