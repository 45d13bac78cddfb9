// The programs of docs/guides/eigen.md.
#if __has_include(<Eigen/Dense>)
// [snippet: headers]
#include <Eigen/Dense>

#include <hero/autograd/autograd.h>
#include <hero/autograd/dlpack.h>
#include <hero/autograd/eigen.h>
// [end]

#include <cmath>

#include "support/catch.h"

namespace {

using namespace hero;

// [snippet: fit]
// Minimises |A x - b|^2 + |x|_1 by gradient steps: Hero has the gradient, Eigen the data.
Eigen::VectorXd fit(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Tensor A = from_eigen(a), y = from_eigen(b);  // float64 [m, n] and [m], copies
  const Tensor x = zeros({a.cols()}, {.dtype = kFloat64, .requires_grad = true});
  auto values = [&] {
    const NoGrad no_grad;  // a leaf that requires grad is written to
    return eigen_map<Eigen::VectorXd>(x);
  }();
  const double rate = 0.25 / a.squaredNorm();
  for (int step = 0; step < 2000; ++step) {
    const Tensor loss = square(mv(A, x) - y).sum() + abs(x).sum();
    const Tensor slope = grad(loss, x);
    values -= rate * eigen_map<const Eigen::VectorXd>(slope);  // Eigen's arithmetic, x's memory
  }
  return to_eigen<Eigen::VectorXd>(x);
}
// [end]

// [snippet: solver]
// Newton's step -H^-1 g: Eigen factorises the Hessian in the memory of the tensor that holds it.
Tensor newton_step(const Tensor& hessian, const Tensor& gradient) {
  const Tensor factor = hessian.detach().clone();
  const Tensor step = -gradient.detach();
  auto matrix = eigen_map<RowMajorMatrix<double>>(factor);
  auto vector = eigen_map<Eigen::VectorXd>(step);
  const Eigen::LLT<Eigen::Ref<RowMajorMatrix<double>>> cholesky(matrix);
  check(cholesky.info() == Eigen::Success, "newton_step: the Hessian is not positive definite");
  cholesky.solveInPlace(vector);
  return step;
}
// [end]

// The largest singular value of a block of a matrix, and its gradient with respect to the whole
// matrix: Hero computes in the matrix's own memory.
std::pair<double, Eigen::MatrixXd> stretch(Eigen::MatrixXd& m, int64_t rows) {
  const Tensor whole = borrow_eigen(m, {.requires_grad = true});  // [m, n] with strides {1, m}
  const Tensor largest = svdvals(whole.slice(0, 0, rows))[0];
  return {largest.item(), to_eigen<Eigen::MatrixXd>(grad(largest, whole))};
}

TEST_CASE("page Eigen: a fit, a solver and a borrowed matrix") {
  Eigen::MatrixXd a(4, 2);
  a << 1, 0, 1, 1, 1, 2, 1, 3;
  const Eigen::VectorXd b = a * Eigen::Vector2d(1, 2);
  const Eigen::VectorXd x = fit(a, b);
  // Where the gradient of the squares is minus the signs: 2 A^T (b - A x) = (1, 1).
  const Eigen::VectorXd exact =
      Eigen::Vector2d(1, 2) - 0.5 * (a.transpose() * a).inverse() * Eigen::Vector2d(1, 1);
  CHECK((x - exact).norm() < 1e-6);

  const Tensor h = tensor({{4.0, 1.0}, {1.0, 3.0}}, {.dtype = kFloat64});
  const Tensor g = tensor({1.0, 2.0}, {.dtype = kFloat64});
  CHECK(allclose(newton_step(h, g), -solve(h, g), 1e-14, 1e-14));
  CHECK(h({0, 0}).item() == 4);
  CHECK_THROWS_AS(newton_step(-h, g), Error);

  Eigen::MatrixXd m(3, 2);
  m << 3, 0, 0, 2, 5, 5;
  const auto [largest, slope] = stretch(m, 2);
  CHECK(std::abs(largest - 3) < 1e-12);
  Eigen::MatrixXd expected = Eigen::MatrixXd::Zero(3, 2);
  expected(0, 0) = 1;
  CHECK((slope - expected).norm() < 1e-12);
}

// [snippet: spans]
// Sums of the rows of somebody's numbers, by Hero's kernels and by a loop.
std::pair<std::vector<float>, std::vector<float>> row_sums(std::span<float> numbers, int64_t cols) {
  const auto rows = static_cast<int64_t>(numbers.size()) / cols;
  const Tensor x = from_blob(numbers, {rows, cols});  // over the same memory, float32 as the span
  const Tensor sums = x.sum(1);
  const std::span<const float> view = sums.span<const float>();
  std::vector<float> loop(view.size());
  const auto a = x.accessor<const float, 2>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) loop[static_cast<size_t>(i)] += a[i][j];
  }
  return {std::vector<float>(view.begin(), view.end()), loop};
}
// [end]

TEST_CASE("page Eigen: spans") {
  std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const auto [kernels, loop] = row_sums(numbers, 3);
  CHECK(kernels == std::vector<float>{6, 15});
  CHECK(loop == kernels);
}

// [snippet: dlpack]
// What another library calls: it gives a tensor away, and gets one that shares memory with it.
dlpack::DLManagedTensorVersioned* doubled(dlpack::DLManagedTensorVersioned* theirs) {
  const Tensor x = from_dlpack(theirs);  // their deleter is called when x is gone
  return to_dlpack(x * 2.0);             // our memory stays until they call the deleter
}
// [end]

TEST_CASE("page Eigen: DLPack") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  CHECK(equal(from_dlpack(doubled(to_dlpack(x))), x * 2.0));
}

}  // namespace
#endif
