#include "optim/more_golden.h"

using namespace hero;
using namespace hero_test;

TEST_CASE("lion and lamb follow NumPy written from their papers") { follow_lion_and_lamb(kCpu); }

TEST_CASE("lbfgs takes PyTorch's points with PyTorch's number of evaluations") {
  follow_lbfgs(kCpu);
}

TEST_CASE("lbfgs with a line search finds the minimum of Rosenbrock's function") {
  const Problem problem("rosenbrock", {-1.5, 2.0});
  optim::LBFGS lbfgs(
      problem.params(),
      {.max_iter = 100, .tolerance_change = 1e-14, .line_search = optim::LineSearch::strong_wolfe});
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor loss = problem.loss();
    loss.backward();
    return loss;
  });
  // A loss within 1e-14 of its minimum where the smallest curvature is 0.4: sqrt(2e-14 / 0.4).
  CHECK(std::fabs(problem.values()[0] - 1.0) < 1e-6);
  CHECK(std::fabs(problem.values()[1] - 1.0) < 1e-6);
  REQUIRE_THROWS_WITH(static_cast<optim::Optimizer&>(lbfgs).step(),
                      Catch::Matchers::ContainsSubstring("closure"));
}
