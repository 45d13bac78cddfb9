// Solvers with error codes, tolerances as tensors, low rank, and matrices far from 1.
#include <cmath>

#include "support/close.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;
using test::check_near, test::waves;

namespace {

const TensorOptions kWide{.dtype = kFloat64};
const double kNaN = std::nan("");

Tensor matrices(const std::vector<double>& values) {
  return tensor(values, kWide).reshape({-1, 2, 2});
}

bool same(const Tensor& a, const Tensor& b) { return a.equal(b); }

}  // namespace

TEST_CASE("cholesky_ex names the first minor that is not positive") {
  const Tensor a = matrices({4, 1, 1, 3, 1, 2, 2, 1, -1, 0, 0, 1}).requires_grad_();
  const CholeskyEx found = cholesky_ex(a);
  CHECK(same(found.info, tensor({0, 2, 1}, {.dtype = kInt32})));
  CHECK(same(found.l.select(0, 0).detach(), cholesky(a.select(0, 0)).detach()));
  check_near(found.l.select(0, 1), {kNaN, kNaN, kNaN, kNaN});
  where((found.info == 0).reshape({3, 1, 1}), found.l, 0).sum().backward();
  const Tensor alone = a.detach().select(0, 0).clone().requires_grad_();
  cholesky(alone).sum().backward();
  check_near(a.grad().select(0, 0), alone.grad().to_vector<double>());
  check_near(slice(a.grad(), 0, 1), std::vector<double>(8, 0.0));
  CHECK(same(cholesky_ex(a, Triangle::upper).l.select(0, 0).detach(),
             cholesky(a.select(0, 0), Triangle::upper).detach()));
  // Of large ones, too, at each order.
  for (const int64_t bad : {1, 17, 64, 65, 129, 130}) {
    const Tensor large = eye(130, kWide) * 2.0;
    large.select(0, bad - 1).select(0, bad - 1).fill_(-1.0);
    CHECK(cholesky_ex(large).info.item<int64_t>() == bad);
  }
  CHECK(cholesky_ex(eye(0)).info.item<int64_t>() == 0);
  CHECK(cholesky_ex(zeros({3, 2, 2}, {.device = kMeta})).info.shape() == Shape{3});
  CHECK_THROWS_WITH(cholesky_ex(ones({2, 3})), ContainsSubstring("not square"));
}

TEST_CASE("inv_ex, solve_ex and lu_factor_ex say which pivot is 0") {
  const Tensor a = matrices({4, 1, 1, 3, 1, 2, 2, 4, 0, 0, 0, 1});
  const Tensor info = tensor({0, 2, 1}, {.dtype = kInt32});
  const InvEx found = inv_ex(a);
  CHECK(same(found.info, info));
  check_near(found.inverse, {0.272727272727, -0.090909090909, -0.090909090909, 0.363636363636, kNaN,
                             kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN});
  const LUFactorsEx factors = lu_factor_ex(a);
  CHECK(same(factors.info, info));
  check_near(factors.lu, {4, 1, 0.25, 2.75, 2, 4, 0.5, 0, 0, 0, 0, 1});
  CHECK(same(factors.pivots, tensor({1, 2, 2, 2, 1, 2}, {.dtype = kInt32}).reshape({3, 2})));
  const SolveEx vectors = solve_ex(a, tensor({1.0, 2.0}, kWide));
  CHECK(same(vectors.info, info));
  check_near(vectors.result, {0.090909090909, 0.636363636364, kNaN, kNaN, kNaN, kNaN});
  const SolveEx right = solve_ex(a, ones({3, 1, 2}, kWide), SolveSide::right);
  check_near(right.result, {0.181818181818, 0.272727272727, kNaN, kNaN, kNaN, kNaN});
  CHECK(inv_ex(full({2, 2}, kNaN)).info.item<int64_t>() == 1);
  CHECK(same(inv_ex(a.select(0, 0)).inverse, inv(a.select(0, 0))));
  CHECK(lu_factor_ex(zeros({3, 0, 2})).info.shape() == Shape{3});
  CHECK(lu_factor_ex(ones({2, 3})).info.item<int64_t>() == 2);
}

TEST_CASE("pinv and matrix_rank take tolerances for each matrix, and symmetric ones") {
  const Tensor d = diag_embed(tensor({{4.0, 1.0, 1e-3}, {4.0, 1.0, 1e-3}}, kWide));
  const auto diagonals = [](const Tensor& x) { return diagonal(x, 0, -2, -1); };
  const Tensor atol = tensor({0.0, 2.0}, kWide), rtol = tensor({0.01, 0.5}, kWide);
  check_near(diagonals(pinv(d, {.atol = atol})), {0.25, 1, 1e3, 0.25, 0, 0});
  check_near(diagonals(pinv(d, {.rtol = rtol})), {0.25, 1, 0, 0.25, 0, 0});
  CHECK(same(matrix_rank(d, {.atol = atol}), tensor({3, 1})));
  CHECK(same(matrix_rank(-d, {.rtol = rtol, .hermitian = true}), tensor({2, 1})));
  CHECK(same(matrix_rank(d, PinvOptions{}), tensor({3, 3})));
  const Tensor m = matrices({2, 1, 1, -3}).select(0, 0);
  check_near(pinv(m, {.hermitian = true}),
             {0.428571428571, 0.142857142857, 0.142857142857, -0.285714285714});
  // The upper triangle is not read.
  const Tensor lower = matrices({2, 77, 1, -3}).select(0, 0);
  check_near(pinv(lower, {.hermitian = true}),
             {0.428571428571, 0.142857142857, 0.142857142857, -0.285714285714});
}

TEST_CASE("gradients of pinv and lstsq of tiny and huge matrices are in range where they are") {
  const Tensor base = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 7.0}}, kWide);
  const Tensor right = tensor({{1.0}, {2.0}, {2.5}}, kWide);
  const auto gradients = [&](double scale) {
    const Tensor a = (base * scale).detach().requires_grad_();
    (pinv(a) * scale).sum().backward();
    const Tensor of_pinv = a.grad() * scale;
    const Tensor b = (base * scale).detach().requires_grad_();
    lstsq(b, right * scale).sum().backward();
    return std::vector<Tensor>{of_pinv, b.grad() * scale};
  };
  const std::vector<Tensor> plain = gradients(1.0);
  for (const int power : {-970, -600, -20, 20, 600, 970}) {
    const std::vector<Tensor> found = gradients(std::ldexp(1.0, power));
    INFO("2^" << power);
    check_near(found[0], plain[0].to_vector<double>());
    check_near(found[1], plain[1].to_vector<double>());
  }
}

TEST_CASE("svd_lowrank finds the largest singular values, pca_lowrank directions") {
  manual_seed(3);
  const Tensor a = matmul(waves({12, 3}, 0.2), waves({3, 8}, 1.0)) + 1e-9 * waves({12, 8}, 2.0);
  for (const Tensor& x : {a, a.t(), stack({a, 2.0 * a})}) {
    const LowRank found = svd_lowrank(x, 3);
    const Tensor rebuilt = matmul(found.u * unsqueeze(found.s, -2), found.v.t());
    CHECK(max(abs(rebuilt - x)).item() < 1e-7);
    check_near(found.s, slice(svdvals(x), -1, 0, 3).to_vector<double>(), 1e-7);
    CHECK(max(abs(matmul(found.u.t(), found.u) - eye(3, kWide))).item() < 1e-12);
    CHECK(found.v.size(-2) == x.size(-1));
  }
  const LowRank pca = pca_lowrank(a + 5.0, {.q = 3});
  check_near(pca.s, slice(svdvals(a - a.mean({0}, true)), -1, 0, 3).to_vector<double>(), 1e-6);
  CHECK(pca_lowrank(a).s.size(0) == 6);
  check_near(svd_lowrank(a, 2, 2, a.mean({0}, true)).s,
             slice(svdvals(a - a.mean({0}, true)), -1, 0, 2).to_vector<double>(), 1e-6);
  CHECK_THROWS_WITH(svd_lowrank(a, 9), ContainsSubstring("q 9 is not between"));
  CHECK_THROWS_WITH(svd_lowrank(a, 2, -1), ContainsSubstring("niter is negative"));
}
