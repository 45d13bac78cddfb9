// Where pieces of functions meet, and among NaN: derivatives and positions are PyTorch's.
#include <cmath>
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

TEST_CASE("clamp between tensors lets the gradient of NaN through, and that of its bounds stays") {
  struct Row {
    Values at, expected;  // x, low, high; 9 stands for NaN
  };
  const Row rows[] = {{{9, 1, 2}, {1, 0, 0}}, {{9, 2, 1}, {1, 0, 1}},    {{1, 2, 9}, {0, 0, 0}},
                      {{3, 2, 9}, {1, 0, 0}}, {{3, 9, 2}, {0, 0, 0}},    {{1, 9, 2}, {1, 0, 0}},
                      {{1, 2, 1}, {0, 0, 1}}, {{2, 2, 3}, {0.5, 0.5, 0}}};
  for (const Row& row : rows) {
    std::vector<Tensor> in;
    for (const double value : row.at) {
      in.push_back(tensor(value == 9 ? kNan : value, {.dtype = kFloat64, .requires_grad = true}));
    }
    INFO(row.at[0] << " " << row.at[1] << " " << row.at[2]);
    const std::vector<Tensor> found = grad({clamp(in[0], in[1], in[2])}, in);
    for (size_t i = 0; i < 3; ++i) CHECK(found[i].item() == row.expected[i]);
  }
}

TEST_CASE("the divisor of a remainder has the quotient's gradient, also by 0 and by infinities") {
  const auto of = [](double a, double b) {
    const Tensor y = tensor(b, {.dtype = kFloat64, .requires_grad = true});
    return grad(remainder(tensor(a, {.dtype = kFloat64}), y), y).item();
  };
  CHECK(of(-5.0, 3.0) == 2.0);
  CHECK(of(1.0, 0.0) == -kInf);
  CHECK(of(-1.0, 0.0) == kInf);
  CHECK(of(1.0, kInf) == 0.0);
  CHECK(of(-1.0, kInf) == 1.0);
  CHECK(std::isnan(of(kInf, kInf)));
  CHECK(std::isnan(of(kNan, kInf)));
}

TEST_CASE("the gradient of pow at the base 0 has a derivative by what it is multiplied with") {
  for (const double exponent : {1.0, 2.0}) {
    const Tensor a = tensor(0.0, {.dtype = kFloat64, .requires_grad = true});
    const Tensor b = tensor(exponent, {.dtype = kFloat64, .requires_grad = true});
    const Tensor g = tensor(1.0, {.dtype = kFloat64, .requires_grad = true});
    const std::vector<Tensor> first =
        grad({pow(a, b)}, {a, b}, {.grad_outputs = {g}, .create_graph = true});
    CHECK(first[0].item() == (exponent == 1.0 ? 1.0 : 0.0));
    CHECK(first[1].item() == 0.0);
    CHECK(grad(first[0] + first[1], g).item() == first[0].item());
  }
}

TEST_CASE("the gradient of xlogy at 0 has a derivative by what it is multiplied with") {
  const Tensor x = tensor(0.0, {.dtype = kFloat64, .requires_grad = true});
  const Tensor g = tensor(1.0, {.dtype = kFloat64, .requires_grad = true});
  const Tensor zero = tensor(0.0, {.dtype = kFloat64});
  const Tensor slope = grad({xlogy(x, zero)}, {x}, {.grad_outputs = {g}, .create_graph = true})[0];
  CHECK(slope.item() == 0.0);
  CHECK(grad(slope, g).item() == 0.0);
}

TEST_CASE(
    "products with zeros have gradients of 0 where the product of the rest leaves the range") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const double big = dtype == kFloat64 ? 1e200 : 1e20;
    const std::vector<Values> lines = {{big, big, 0.0, 0.0},
                                       {0.0, 0.0, big, big},
                                       {big, 0.0, 0.0, big},
                                       {0.0, big, big, 0.0},
                                       {big, big, big, 0.0, -big, 0.0, big},
                                       {big, -big, 0.0, big, 0.0, big, 0.0}};
    for (const Values& line : lines) {
      INFO(dtype << ", line " << &line - lines.data());
      const auto count = static_cast<int64_t>(line.size());
      const Tensor x = tensor(line, {.dtype = dtype, .requires_grad = true}), none = zeros_like(x);
      for (const bool graph : {false, true}) {
        CHECK(equal(grad(prod(x), x, {.create_graph = graph}), none));
        CHECK(equal(grad(sum(prod(stack({x, x}, 1), Dims{0})), x, {.create_graph = graph}), none));
        // Of the last running product, whose value is that of prod. Behind two zeros in a row the
        // recurrence of its gradient may leave the range itself.
        const Tensor last = narrow(cumprod(x, 0), 0, count - 1, 1);
        if (line[0] != 0.0 || line[1] != 0.0) {
          CHECK(equal(grad(sum(last), x, {.create_graph = graph}), none));
        }
        const Tensor at = zeros({count}, {.dtype = kInt64});
        const auto scattered = [&](const Tensor& base, bool include_self) {
          return sum(scatter_reduce(base, 0, at, x, ScatterReduce::prod, include_self));
        };
        const Tensor one = ones({1}, {.dtype = dtype}).requires_grad_();
        CHECK(equal(grad(scattered(one, true), x, {.create_graph = graph}), none));
        CHECK(equal(grad(scattered(one, false), x, {.create_graph = graph}), none));
        CHECK(equal(grad(scattered(one, true), one, {.create_graph = graph}), zeros_like(one)));
      }
    }
    // One zero: its own gradient is beyond the range, those of the others are 0.
    const Tensor x = tensor({big, 0.0, big, 2.0}, {.dtype = dtype, .requires_grad = true});
    const Values expected = {0.0, kInf, 0.0, 0.0};
    CHECK(grad(prod(x), x).to_vector<double>() == expected);
    CHECK(grad(prod(x), x, {.create_graph = true}).to_vector<double>() == expected);
    // What is infinite itself makes NaN of 0, as before.
    const Tensor y = tensor({kInf, 0.0, 0.0}, {.dtype = dtype, .requires_grad = true});
    CHECK(std::isnan(grad(prod(y), y)[1].item()));
  }
  // Second derivatives of the others stay.
  const Tensor x = tensor({1e20, 1e20, 0.0}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor slope = grad(prod(x), x, {.create_graph = true});
  CHECK(grad(slope[0], x).to_vector<float>() == std::vector<float>{0.0f, 0.0f, 1e20f});
}

TEST_CASE("scatter_reduce has the second derivative of a product of two zeros") {
  // 0 * 0 * 4 at one place: its mixed derivative is 4.
  const Tensor x = zeros({1}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor src = tensor({0.0, 4.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = scatter_reduce(x, 0, zeros({2}, kInt64), src, ScatterReduce::prod);
  const Tensor slope = grad(sum(y), x, {.create_graph = true});
  CHECK(slope.item() == 0.0);
  CHECK(grad(sum(slope), src).to_vector<double>() == Values{4, 0});
}

TEST_CASE("elements that take no part have no effect on gradients, though they are not finite") {
  const Tensor x = tensor({kInf, -2.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor slope = tensor({0.5}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(grad(sum(prelu(x, slope)), slope).item() == -2.0);
  const Tensor endless = tensor({kInf}, {.dtype = kFloat64});
  const Tensor z = tensor({1.0}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(grad(sum(prelu(z, endless)), z).item() == 1.0);
  // Padding in bags, of rows and of their factors.
  const Tensor weight = tensor({{1.0, 2.0}, {kNan, kInf}});
  const Tensor index = tensor({{0, 1}}), factors = tensor({{3.0, kNan}});
  for (const BagMode mode : {BagMode::sum, BagMode::mean}) {
    CHECK(
        embedding_bag(weight, index, {.mode = mode, .padding_idx = 1}).equal(tensor({{1.0, 2.0}})));
  }
  CHECK(embedding_bag(weight, index,
                      {.mode = BagMode::sum, .per_sample_weights = factors, .padding_idx = 1})
            .equal(tensor({{3.0, 6.0}})));
}

TEST_CASE("polygamma ends at 0, and has no limit at minus infinity") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({kInf, -kInf}, {.dtype = dtype, .requires_grad = true});
    for (const Tensor& y : {polygamma(1, x), grad(sum(digamma(x)), x)}) {
      CHECK(y.select(0, 0).item() == 0.0);
      CHECK(std::isnan(y.select(0, 1).item()));
    }
  }
}

TEST_CASE("hardswish lets the gradient of NaN through") {
  const Tensor found = gradient([](const Tensor& x) { return hardswish(x); }, {kNan, 0.0, 4.0});
  CHECK(found.to_vector<double>() == Values{1.0, 0.5, 1.0});
}

TEST_CASE("the nearest pixel of float64 is found in float64, where float32 rounds to another") {
  const auto at = [](DType dtype, int64_t i) {
    const Tensor x = arange(33, {.dtype = dtype}).reshape({1, 1, 33});
    return interpolate(x, {.scale_factor = {3.7}}).select(2, i).item();
  };
  CHECK(at(kFloat64, 110) == 29.0);
  CHECK(at(kFloat64, 111) == 30.0);
  CHECK(at(kFloat32, 111) == 29.0);
}

TEST_CASE("bags without any row are zeros that keep the table's gradient") {
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const Tensor weight = ones({3, 2}, {.requires_grad = true});
    const Tensor none = zeros({0}, kInt64), bags = zeros({2}, kInt64);
    const Tensor y = embedding_bag(weight, none, {.offsets = bags, .mode = mode});
    CHECK(equal(y, zeros({2, 2})));
    CHECK(equal(grad(sum(y), weight), zeros({3, 2})));
  }
  const Tensor x = ones({2}), src = ones({3}, {.requires_grad = true});
  const Tensor nowhere = zeros({0}, kInt32);
  for (const Tensor& y : {scatter_reduce(x, 0, nowhere, src, ScatterReduce::prod),
                          scatter_add(x, 0, nowhere, src), scatter(x, 0, nowhere, src)}) {
    CHECK(equal(y, x));
    CHECK(equal(grad(sum(y), src), zeros({3})));
  }
}

TEST_CASE("gradients of constants are zeros, not absent") {
  const Tensor x = tensor({1.25, -2.5}, {.dtype = kFloat64, .requires_grad = true});
  for (Tensor (*f)(const Tensor&) : {floor, ceil, sign, trunc}) {
    CHECK(grad(sum(f(x)), x).to_vector<double>() == Values{0, 0});
  }
  const Tensor y = tensor({1.0, -1.0}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(grad(sum(copysign(x, y)), y).to_vector<double>() == Values{0, 0});
  CHECK(grad(sum(round(x)), x).to_vector<double>() == Values{0, 0});
}

TEST_CASE("no gradient flows through xlogy where none arrives, whatever the logarithm is") {
  const Tensor p = tensor({0.5, 0.5, 0.5}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor q = tensor({0.0, -1.0, 1.0}, {.dtype = kFloat64});
  const Tensor masked = where(q > 0, xlogy(p, q), zeros({3}, {.dtype = kFloat64}));
  CHECK(grad(sum(masked), p).to_vector<double>() == Values{0, 0, 0});
}
