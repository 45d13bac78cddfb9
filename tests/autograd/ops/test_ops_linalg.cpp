#include <cmath>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops.h>
#include <hero/core/random.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring, Catch::Matchers::Equals;

namespace {

const TensorOptions kDouble{.dtype = kFloat64};

Tensor random_matrices(const Shape& shape) {
  manual_seed(7);
  return randn(shape, kDouble);
}

// Residuals of well-conditioned systems of order 10 stay within some tens of roundings.
bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-12); }

}  // namespace

TEST_CASE("solvers and decompositions satisfy their equations, in batches and transposed") {
  const Tensor a = random_matrices({3, 8, 8}).t() + eye(8, kDouble) * 8.0;
  const Tensor b = random_matrices({8, 2});
  CHECK(near(matmul(a, solve(a, b)), expand(b, {3, 8, 2})));
  CHECK(near(matmul(a, inv(a)), expand(eye(8, kDouble), {3, 8, 8})));
  CHECK(near(matmul(a[0], solve(a[0], b.select(1, 0)).unsqueeze(1)), slice(b, 1, 0, 1)));
  const Tensor definite = matmul(a, a.t());
  const Tensor lower = cholesky(definite);
  CHECK(allclose(matmul(lower, lower.t()), definite, 1e-12, 1e-10));
  CHECK(equal(lower, tril(lower)));
  for (const Shape& shape : {Shape{2, 7, 4}, Shape{2, 4, 7}, Shape{5, 5}}) {
    const Tensor m = random_matrices(shape);
    const QR parts = qr(m);
    CHECK(near(matmul(parts.q, parts.r), m));
    const int64_t n = parts.q.size(-1);
    CHECK(near(matmul(parts.q.t(), parts.q),
               expand(eye(n, kDouble), matmul(parts.q.t(), parts.q).shape())));
    CHECK(equal(parts.r, triu(parts.r)));
  }
}

TEST_CASE("determinants of known matrices, singular and empty ones included") {
  const Tensor a = tensor({{0.0, 2.0}, {3.0, 1.0}}, kDouble);
  CHECK(det(a).item() == -6.0);
  const SignLogDet parts = slogdet(a);
  CHECK(parts.sign.item() == -1.0);
  CHECK(std::abs(parts.logabsdet.item() - std::log(6.0)) < 1e-15);
  const Tensor singular = tensor({{1.0, 2.0}, {2.0, 4.0}}, kDouble);
  CHECK(det(singular).item() == 0.0);
  CHECK(slogdet(singular).sign.item() == 0.0);
  CHECK(std::isinf(slogdet(singular).logabsdet.item()));
  CHECK(det(zeros({2, 0, 0})).to_vector<double>() == std::vector<double>{1, 1});
}

TEST_CASE("the determinant has derivatives at singular matrices") {
  const Tensor rank_one = tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {3.0, 6.0, 9.0}}, kDouble);
  const Tensor rank_two = tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {0.0, 1.0, 5.0}}, kDouble);
  const auto f = [](const std::vector<Tensor>& x) { return det(x[0]); };
  for (const Tensor& a : {rank_one, rank_two}) {
    a.requires_grad_();
    CHECK(gradcheck(f, {a}));
    CHECK(gradgradcheck(f, {a}));
  }
}

TEST_CASE("determinants are in range where parts of them are not, and so are their gradients") {
  const std::vector<double> sizes{1e200, 1e200, 1e-200, 1e-200};
  for (const auto& list : {sizes, std::vector<double>(sizes.rbegin(), sizes.rend())}) {
    CHECK(near(det(diag(tensor(list, kDouble))), ones({}, kDouble)));
  }
  const Tensor large = diag(tensor({1e200, -1e180}, kDouble)).requires_grad_();
  const Tensor infinite = det(large);
  CHECK(infinite.item() == -HUGE_VAL);
  infinite.backward();
  CHECK(near(large.grad() / 1e200, tensor({{-1e-20, 0.0}, {0.0, 1.0}}, kDouble)));
  // Its determinant is 0 by rounding, but it is not singular: no cofactor is a determinant of its
  // own, which would take hours.
  const Tensor small = (eye(300, kDouble) * 0.05).requires_grad_();
  const Tensor zero = det(small);
  CHECK(zero.item() == 0.0);
  zero.backward();
  CHECK(equal(small.grad(), zeros({300, 300}, kDouble)));
}

TEST_CASE("gradients of singular vectors are as accurate for matrices of any size") {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 7.0}}).to(kFloat32);
  const Tensor weights = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}).to(kFloat32);
  const auto gradient = [&](double scale) {
    const Tensor x = (a * scale).detach().requires_grad_();
    const SVD found = svd(x);
    (sum(square(found.u) * weights) + sum(square(found.vh) * weights.slice(0, 0, 2))).backward();
    return x.grad() * scale;
  };
  for (const double scale : {0x1p-110, 0x1p110}) {
    CHECK(allclose(gradient(scale), gradient(1.0), 1e-5, 1e-6));
  }
}

TEST_CASE("lstsq meets the normal equations and fits a line exactly") {
  const Tensor a = random_matrices({20, 3}), b = random_matrices({20, 2});
  const Tensor residual = matmul(a, lstsq(a, b)) - b;
  CHECK(near(matmul(a.t(), residual), zeros({3, 2}, kDouble)));
  const Tensor x = arange(10.0).to(kFloat64);
  const Tensor line = stack({x, ones_like(x)}, 1);
  CHECK(near(lstsq(line, x * 3.0 - 1.0), tensor({3.0, -1.0}, kDouble)));
}

TEST_CASE("linalg names the matrix that it cannot handle") {
  const Tensor good = eye(2, kDouble);
  const Tensor singular = tensor({{1.0, 2.0}, {2.0, 4.0}}, kDouble);
  const Tensor pair = stack({good, singular});
  const Tensor b = ones({2, 1}, kDouble);
  CHECK_THROWS_WITH(solve(singular, b), ContainsSubstring("solve: the matrix is singular"));
  CHECK_THROWS_WITH(inv(pair), ContainsSubstring("inv: matrix 1 of the batch [2] is singular"));
  CHECK_THROWS_WITH(cholesky(stack({good, -good})),
                    ContainsSubstring("matrix 1 of the batch [2] is not positive definite"));
  CHECK_THROWS_WITH(lstsq(singular, b), ContainsSubstring("without full column rank"));
  CHECK_THROWS_WITH(lstsq(ones({2, 3}), ones({2, 1})), ContainsSubstring("without full rank"));
  CHECK_THROWS_WITH(inv(ones({2, 3})), ContainsSubstring("not square: [2, 3]"));
  CHECK_THROWS_WITH(det(tensor({1, 2})), ContainsSubstring("det: matrix is int64"));
  CHECK_THROWS_WITH(solve(good, ones({3, 1}, kDouble)), ContainsSubstring("rows differ"));
}

TEST_CASE("linalg works on empty matrices and empty batches") {
  CHECK(to_string(inv(zeros({0, 3, 3})).shape()) == "[0, 3, 3]");
  CHECK(to_string(solve(zeros({0, 0}), zeros({0, 2})).shape()) == "[0, 2]");
  CHECK(to_string(qr(zeros({3, 0})).q.shape()) == "[3, 0]");
  CHECK(to_string(cholesky(zeros({2, 0, 0})).shape()) == "[2, 0, 0]");
}

TEST_CASE("complete decompositions add orthonormal directions without derivative") {
  for (const Shape& shape : {Shape{2, 6, 3}, Shape{3, 5}, Shape{4, 4}, Shape{3, 0}}) {
    INFO(to_string(shape));
    const Tensor a = random_matrices(shape).requires_grad_();
    const int64_t rows = a.size(-2), columns = a.size(-1);
    const SVD full = svd(a, {.full_matrices = true}), thin = svd(a);
    CHECK(full.u.shape().back() == rows);
    CHECK(full.vh.size(-2) == columns);
    const auto orthonormal = [](const Tensor& q) {
      const Tensor one = eye(q.size(-1), kDouble);
      return near(matmul(q.t(), q), expand(one, matmul(q.t(), q).shape()));
    };
    CHECK(orthonormal(full.u));
    CHECK(orthonormal(full.vh));
    const int64_t inner = thin.s.size(-1);
    CHECK(equal(slice(full.u, -1, 0, inner), thin.u));
    CHECK(equal(slice(full.vh, -2, 0, inner), thin.vh));
    CHECK(equal(full.s, thin.s));
    const QR complete = qr(a.detach(), QRMode::complete), r = qr(a.detach(), QRMode::r);
    CHECK(complete.q.size(-1) == rows);
    CHECK(complete.r.shape() == a.shape());
    CHECK(orthonormal(complete.q));
    CHECK(near(matmul(complete.q, complete.r), a.detach()));
    CHECK_FALSE(r.q.defined());
    CHECK(equal(r.r, qr(a.detach()).r));
    CHECK_THROWS_WITH(qr(a, QRMode::r), ContainsSubstring("without derivative"));
    if (rows > columns) {
      CHECK_THROWS_WITH(qr(a, QRMode::complete), ContainsSubstring("more rows than columns"));
    } else {
      CHECK(qr(a, QRMode::complete).q.requires_grad());
    }
  }
}

TEST_CASE("matrix_exp halves each matrix as often as it needs, and no more") {
  const auto error = [](const Tensor& a) {
    const Tensor exact = matrix_exp(a.to(kFloat64));
    return (max(abs(matrix_exp(a).to(kFloat64) - exact)) / max(abs(exact))).item<double>();
  };
  constexpr double kEpsilon = 0x1p-23;
  CHECK(error(tensor({{10.0}})) < 2 * kEpsilon);
  CHECK(error(tensor({{-49.0, 24.0}, {-64.0, 31.0}})) < 300 * kEpsilon);
  // Beside a matrix whose exponential takes nine squarings: they would turn 2^-24 into 2^-15.
  const Tensor small = tensor({{0.5, 0.25}, {-0.125, 0.75}});
  const Tensor both = matrix_exp(stack({small, small * 1000.0 - eye(2) * 900.0}));
  CHECK(max(abs(both[0] - matrix_exp(small))).item() < 2 * kEpsilon);
  CHECK(gradcheck([](const auto& in) { return matrix_exp(in[0]); },
                  {stack({small, small * 8.0}).to(kFloat64).detach().requires_grad_()}));
}

TEST_CASE("logcumsumexp far from 0 has the gradient of its differences") {
  for (const double at : {1e4, -1e4}) {
    const Tensor x = tensor({0.5, -1.0, 2.0, 0.25, -0.75}) + at;
    const Tensor g = tensor({1.0, -0.5, 2.0, 0.75, -1.25});
    std::vector<Tensor> grads;
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor leaf = x.detach().to(dtype).requires_grad_();
      sum(logcumsumexp(leaf, 0) * g.to(dtype)).backward();
      CHECK(leaf.grad().dtype() == dtype);
      grads.push_back(leaf.grad().to(kFloat64));
    }
    // 1e-6: one rounding to float32 of numbers below 4; with differences in float32 it is 1e-4
    CHECK(max(abs(grads[0] - grads[1])).item<double>() < 1e-6);
  }
}

TEST_CASE("logcumsumexp near 0 has the digits of its terms") {
  const Tensor x = full({64}, -std::log(64.0));
  const double exact = std::log(64.0) + x[0].item<double>();
  CHECK(std::abs(logcumsumexp(x, 0)[63].item<double>() - exact) < 1e-6 * std::abs(exact));
  // Beside a line of numbers whose exponentials no double holds next to one another.
  const Tensor far = tensor({-3e4, -3e4, 0.0, 2e3}), near = tensor({0.5, 1.0, -2.0, 0.0});
  const Tensor both = logcumsumexp(stack({far, near}), 1);
  CHECK(allclose(both[0], tensor({-3e4, -3e4 + std::log(2.0), 0.0, 2e3})));
  CHECK(equal(both[1], logcumsumexp(near, 0)));
}

TEST_CASE("cdist by a product has the gradient of cdist by differences, 0 where rows are equal") {
  // Whole numbers: a product finds that rows are equal.
  const Tensor rows = floor(random_matrices({40, 3}) * 3.0);
  const auto gradients = [&](int64_t at_once) {
    const Tensor a = rows.clone().requires_grad_(), b = rows.clone().requires_grad_();
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < 40; i += at_once) {
      std::vector<Tensor> line;
      for (int64_t j = 0; j < 40; j += at_once) {
        line.push_back(cdist(slice(a, 0, i, i + at_once), slice(b, 0, j, j + at_once)));
      }
      parts.push_back(cat(line, 1));
    }
    const Tensor d = cat(parts, 0), of_sum = grad({sum(d)}, {a}, {.retain_graph = true})[0];
    const Tensor first = grad({sum(square(d) * d)}, {a, b}, {.create_graph = true})[0];
    const Tensor second = grad({sum(square(first))}, {b})[0];
    return std::vector{d.detach(), of_sum, first.detach(), second};
  };
  const std::vector<Tensor> whole = gradients(40), parts = gradients(20);
  CHECK(count_nonzero(whole[0] == 0).item<int64_t>() >= 40);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(allclose(whole[i], parts[i], 1e-9, 1e-9));
}

TEST_CASE("solve factors a matrix once, for derivatives of any order and right sides of a batch") {
  const Tensor a = (random_matrices({6, 6}) + eye(6, kDouble) * 4.0).requires_grad_();
  const Tensor b = random_matrices({3, 6, 2}).requires_grad_();
  // By the inverse, whose gradient is another one.
  const auto derivatives = [&](const Tensor& x) {
    const std::vector<Tensor> first = grad({sum(square(x) * x)}, {a, b}, {.create_graph = true});
    const std::vector<Tensor> second = grad({sum(square(first[0])) + sum(sin(first[1]))}, {a, b});
    return std::vector{first[0], first[1], second[0], second[1]};
  };
  const std::vector<Tensor> found = derivatives(solve(a, b)),
                            expected = derivatives(matmul(inv(a), b));
  for (size_t i = 0; i < found.size(); ++i) CHECK(allclose(found[i], expected[i], 1e-9, 1e-9));
  const auto kept = checkpoint([](const Tensor& m, const Tensor& r) { return solve(m, r); }, a, b);
  CHECK(equal(grad({sum(kept)}, {a})[0], grad({sum(solve(a, b))}, {a})[0]));
  // Written in place: the factors are of what it was, so the gradient is refused.
  const Tensor changed = a.detach().clone().requires_grad_();
  const Tensor inner = changed * 1.0, x = solve(inner, b.detach());
  {
    const NoGrad no_grad;
    inner.fill_(1.0);
  }
  CHECK_THROWS_WITH(sum(x).backward(), ContainsSubstring("solve"));
}

TEST_CASE("inner and vecdot refuse sizes that differ, also where one is 1") {
  const auto refused = [](const Tensor& a, const Tensor& b, const std::string& shapes) {
    CHECK_THROWS_WITH(inner(a, b), Equals("inner: sizes differ in the last dimension: " + shapes +
                                          "; both must be the same, also where one is 1"));
    CHECK_THROWS_WITH(vecdot(a, b), Equals("vecdot: sizes differ in dim -1: " + shapes +
                                           "; both must be the same, also where one is 1"));
  };
  refused(ones({5, 1}), ones({5}), "[5, 1] and [5]");
  refused(ones({2, 1}), ones({3, 4}), "[2, 1] and [3, 4]");
  refused(ones({4}), ones({1}), "[4] and [1]");
  refused(ones({1}), ones({0}), "[1] and [0]");
  refused(ones({2, 3}), ones({4}), "[2, 3] and [4]");
  CHECK_THROWS_WITH(vecdot(ones({1, 4}), ones({3, 4}), 0),
                    ContainsSubstring("vecdot: sizes differ in dim 0"));
  CHECK(equal(inner(ones({2, 3}), ones({4, 3})), full({2, 4}, 3.0)));
  CHECK(equal(inner(ones({2, 3}), full({}, 2.0)), full({2, 3}, 2.0)));
  // Dimensions that are not summed broadcast.
  CHECK(equal(vecdot(ones({2, 3}), ones({1, 3})), full({2}, 3.0)));
  CHECK(equal(vecdot(ones({2, 3}), ones({2, 1}), 0), full({3}, 2.0)));
  CHECK(equal(vecdot(ones({2, 3}), ones({3}), 0), full({3}, 2.0)));
}
