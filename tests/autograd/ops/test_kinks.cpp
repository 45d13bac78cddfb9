// Where pieces of functions meet, and among NaN: derivatives and positions are PyTorch's.
#include <functional>
#include <limits>
#include <numbers>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::WithinAbs;
using namespace hero;

namespace {

using Values = std::vector<double>;
using Integers = std::vector<int64_t>;
using Function = std::function<Tensor(const Tensor&)>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double second_derivative(const Function& of, double at) {
  const Tensor x = tensor(at, {.dtype = kFloat64, .requires_grad = true});
  const Tensor slope = grad(of(x), x, {.create_graph = true});
  return grad(slope, x).item();
}

Tensor gradient(const Function& of, const Values& at) {
  const Tensor x = tensor(at, {.dtype = kFloat64, .requires_grad = true});
  return grad(sum(of(x)), x);
}

}  // namespace

TEST_CASE("second derivatives where two pieces of one slope meet are 0") {
  CHECK(second_derivative([](const Tensor& x) { return elu(x, 0.7); }, 0.0) == 0.0);
  CHECK(second_derivative([](const Tensor& x) { return selu(x); }, 0.0) == 0.0);
  CHECK(second_derivative([](const Tensor& x) { return celu(x, 2.0); }, 0.0) == 0.0);
  CHECK(second_derivative([](const Tensor& x) { return softplus(x, 2.0, 2.0); }, 1.0) == 0.0);
  const auto huber = [](const Tensor& x) { return huber_loss(x, zeros_like(x), 1.5); };
  CHECK(second_derivative(huber, 1.5) == 0.0);
  CHECK(second_derivative(huber, -1.5) == 0.0);
  CHECK(second_derivative(huber, 1.25) == 1.0);
  // The slopes themselves stay.
  CHECK(gradient([](const Tensor& x) { return elu(x, 0.7); }, {0.0}).item() == 0.7);
  CHECK(gradient([](const Tensor& x) { return celu(x, 2.0); }, {0.0}).item() == 1.0);
  CHECK(gradient(huber, {1.5}).item() == 1.5);
}

TEST_CASE("sinc has its second derivative at 0") {
  const double third = std::numbers::pi * std::numbers::pi / 3.0;
  CHECK_THAT(second_derivative([](const Tensor& x) { return sinc(x); }, 0.0),
             WithinAbs(-third, 1e-12));  // one rounding of each factor
  CHECK(sinc(tensor({0.0})).item() == 1.0);
  CHECK(gradient([](const Tensor& x) { return sinc(x); }, {0.0}).item() == 0.0);
}

TEST_CASE("the greatest of NaN has PyTorch's gradient") {
  const Values one = {1.0, kNan, 3.0}, two = {kNan, kNan, 1.0};
  CHECK(gradient([](const Tensor& x) { return max(x); }, one).to_vector<double>() ==
        Values{0, 1, 0});
  CHECK(gradient([](const Tensor& x) { return min(x); }, two).to_vector<double>() ==
        Values{0.5, 0.5, 0});
  // Over dimensions, and in norms of infinity, nothing is equal to NaN, and 0 is divided by 0.
  CHECK(all(isnan(gradient([](const Tensor& x) { return amax(x); }, one))).item<bool>());
  CHECK(all(isnan(gradient([](const Tensor& x) { return amin(x, {0}); }, two))).item<bool>());
  CHECK(all(isnan(gradient([](const Tensor& x) { return norm(x, kInf); }, one))).item<bool>());
}

TEST_CASE("scatter_reduce has the gradient NaN where its greatest is NaN") {
  const Tensor index = tensor({0, 0, 1, 1});
  for (const ScatterReduce reduce : {ScatterReduce::amax, ScatterReduce::amin}) {
    const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor src = tensor({kNan, 2.0, 3.0, 3.0}, {.requires_grad = true});
    scatter_reduce(x, 0, index, src, reduce, false).sum().backward();
    CHECK(x.grad().to_vector<double>() == Values{0, 0});
    CHECK(isnan(src.grad()).to_vector<bool>() == std::vector<bool>{true, true, false, false});
    CHECK(slice(src.grad(), 0, 2).to_vector<double>() == Values{0.5, 0.5});
  }
}

TEST_CASE("searches among NaN and numbers out of order halve as PyTorch's do") {
  const Tensor values = tensor({0.0, 1.0, 2.5, kNan, 9.0, kInf});
  struct Case {
    Values sorted;
    Integers left, right;
  };
  const std::vector<Case> cases = {{{1, 2, 3}, {0, 0, 2, 3, 3, 3}, {0, 1, 2, 3, 3, 3}},
                                   {{1, 2, kNan}, {0, 0, 3, 3, 3, 3}, {0, 1, 3, 3, 3, 3}},
                                   {{1, kNan, 3}, {2, 2, 2, 3, 3, 3}, {2, 2, 2, 3, 3, 3}},
                                   {{kNan, 1, 2}, {1, 1, 3, 3, 3, 3}, {1, 2, 3, 3, 3, 3}},
                                   {{kNan, kNan, kNan}, {3, 3, 3, 3, 3, 3}, {3, 3, 3, 3, 3, 3}},
                                   {{3, 1, 2}, {0, 0, 3, 3, 3, 3}, {0, 2, 3, 3, 3, 3}},
                                   {{1, 2, kNan, kNan}, {4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 4, 4}}};
  for (const Case& c : cases) {
    const Tensor sorted = tensor(c.sorted);
    CHECK(searchsorted(sorted, values).to_vector<int64_t>() == c.left);
    CHECK(bucketize(values, sorted, {.right = true}).to_vector<int64_t>() == c.right);
    const Tensor rows = stack({sorted, sorted});
    CHECK(searchsorted(rows, stack({values, values}))[1].to_vector<int64_t>() == c.left);
  }
  CHECK(searchsorted(zeros({0}), values).to_vector<int64_t>() == Integers(6, 0));
}

TEST_CASE("NaN among the tests of isin hides no number and is none") {
  const Tensor tests = tensor({kNan, 2.0, kNan, 1.0, kNan});
  CHECK(isin(tensor({1.0, 2.0, 3.0, kNan, kInf}), tests).to_vector<bool>() ==
        std::vector<bool>{true, true, false, false, false});
}
