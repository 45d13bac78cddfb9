// Singular values and vectors by random projections.
#include <algorithm>

#include <hero/autograd/linalg_more.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>

namespace hero {

namespace {

// An orthonormal basis [.., M, q] of about what the q largest singular values reach.
Tensor basis_of(const Tensor& a, int64_t q, int64_t niter) {
  const Tensor random = randn({a.size(-1), q}, {.dtype = a.dtype(), .device = a.device()});
  Tensor basis = qr(matmul(a, random)).q;
  for (int64_t i = 0; i < niter; ++i) {
    basis = qr(matmul(a.t(), basis)).q;
    basis = qr(matmul(a, basis)).q;
  }
  return basis;
}

}  // namespace

LowRank svd_lowrank(const Tensor& a, int64_t q, int64_t niter, const Tensor& mean) {
  const detail::Named named("svd_lowrank", {"a", a});
  detail::check_defined("svd_lowrank", {{"a", a}});
  check(a.ndim() >= 2, "svd_lowrank: needs a matrix: got shape ", a.shape());
  check(q >= 0 && q <= std::min(a.size(-2), a.size(-1)), "svd_lowrank: q ", q,
        " is not between 0 and the smaller size of ", a.shape());
  check(niter >= 0, "svd_lowrank: niter is negative: ", niter);
  const Tensor centered = mean.defined() ? a - mean : a;
  // The basis is that of the shorter side.
  const bool wide = a.size(-2) < a.size(-1);
  const Tensor tall = wide ? centered.t() : centered;
  const Tensor basis = basis_of(tall, q, niter);
  const SVD small = svd(matmul(basis.t(), tall));
  const Tensor u = matmul(basis, small.u), v = small.vh.t();
  return wide ? LowRank{v, small.s, u} : LowRank{u, small.s, v};
}

LowRank pca_lowrank(const Tensor& a, const PCAOptions& options) {
  const detail::Named named("pca_lowrank", {"a", a});
  detail::check_defined("pca_lowrank", {{"a", a}});
  check(a.ndim() >= 2, "pca_lowrank: needs a matrix: got shape ", a.shape());
  const int64_t least = std::min(a.size(-2), a.size(-1));
  const int64_t q = options.q.value_or(std::min<int64_t>(6, least));
  return svd_lowrank(a, q, options.niter, options.center ? mean(a, {-2}, true) : Tensor());
}

}  // namespace hero
