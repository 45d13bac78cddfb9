// Solvers with an error code for each matrix.
#include <limits>

#include <hero/autograd/linalg_more.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/core/functions/linalg.h>

namespace hero {

namespace {

// True where a matrix has no result, as [.., 1, 1].
Tensor refused(const Tensor& info) { return unsqueeze(unsqueeze(info != 0, -1), -1); }

// The identity in the place of what has no result.
Tensor harmless(const Tensor& a, const Tensor& info) {
  const Tensor one = eye(a.size(-1), {.dtype = a.dtype(), .device = a.device()});
  return where(refused(info), one, a);
}

Tensor nan_where(const Tensor& bad, const Tensor& result) {
  return where(bad, std::numeric_limits<double>::quiet_NaN(), result);
}

Tensor singular_at(const char* op, const Tensor& a) {
  check(a.ndim() >= 2 && a.size(-1) == a.size(-2), op, ": matrix is not square: ", a.shape());
  return lu_factor_ex(a.detach()).info;
}

}  // namespace

CholeskyEx cholesky_ex(const Tensor& a, Triangle triangle) {
  const detail::Named named("cholesky_ex", {"a", a});
  detail::check_defined("cholesky_ex", {{"a", a}});
  const Tensor lower = triangle == Triangle::lower ? a : a.t();
  const Tensor info(core::cholesky_fault(lower.array()));
  const Tensor l = nan_where(refused(info), cholesky(harmless(lower, info)));
  return {triangle == Triangle::lower ? l : l.t(), info};
}

InvEx inv_ex(const Tensor& a) {
  const detail::Named named("inv_ex", {"a", a});
  detail::check_defined("inv_ex", {{"a", a}});
  const Tensor info = singular_at("inv_ex", a);
  return {nan_where(refused(info), inv(harmless(a, info))), info};
}

SolveEx solve_ex(const Tensor& a, const Tensor& b, SolveSide side) {
  const detail::Named named("solve_ex", {"a", a}, {"b", b});
  detail::check_defined("solve_ex", {{"a", a}, {"b", b}});
  const Tensor info = singular_at("solve_ex", a);
  Shape vectors = a.shape();
  vectors.pop_back();
  const bool is_vector = side == SolveSide::left && (b.ndim() == 1 || b.shape() == vectors);
  const Tensor bad = is_vector ? unsqueeze(info != 0, -1) : refused(info);
  return {nan_where(bad, solve(harmless(a, info), b, side)), info};
}

}  // namespace hero
