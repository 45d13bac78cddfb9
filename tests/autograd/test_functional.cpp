// Derivatives of functions beside formulas, and beside each other.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>

using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using namespace hero;

namespace {

using Values = std::vector<double>;

Tensor doubles(const Values& values, bool requires_grad = false) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = requires_grad});
}

// f_i = x_i^2 + x_0, whose jacobian has 2 x_i on its diagonal and ones in its first column.
Tensor squares(const Tensor& x) { return x * x + x[0]; }
// Its hessian is [[6 x0, 2 x1], [2 x1, 2 x0]].
Tensor cubic(const Tensor& x) { return x[0] * x[0] * x[0] + x[0] * x[1] * x[1]; }

}  // namespace

TEST_CASE("jacobian is the matrix of derivatives, of the shapes of output and input") {
  const Tensor x = doubles({1.0, 2.0, 3.0});
  const Tensor j = jacobian(squares, x);
  CHECK(j.shape() == Shape{3, 3});
  CHECK(j.to_vector<double>() == Values{3, 0, 0, 1, 4, 0, 1, 0, 6});
  CHECK(!j.requires_grad());
  CHECK(!x.requires_grad());
  // a generic lambda, matrices, and a single number
  const Tensor m = doubles({1, 2, 3, 4}).reshape({2, 2});
  const Tensor all = jacobian([](const auto& in) { return in.sum(0); }, m);
  CHECK(all.shape() == Shape{2, 2, 2});
  CHECK(all.to_vector<double>() == Values{1, 0, 1, 0, 0, 1, 0, 1});
  CHECK(jacobian([](const auto& in) { return in.sum(); }, m).shape() == Shape{2, 2});
  CHECK(jacobian([](const auto& in) { return in.slice(0, 0, 0); }, m).shape() == Shape{0, 2, 2, 2});
}

TEST_CASE("jacobian of many numbers by few needs no square of the many") {
  const Tensor x = doubles({1.0}), many = arange(1000.0, kFloat64);
  Ledger ledger;
  {
    const LedgerScope scope(ledger);
    CHECK(equal(flatten(jacobian([&](const Tensor& in) { return in * many; }, x)), many));
  }
  CHECK(ledger.peak() < 1000 * 1000);
}

TEST_CASE("jacobian and hessian of several inputs are lists and blocks") {
  const Tensor a = doubles({1.0, 2.0}), b = doubles({3.0});
  const auto f = [](const std::vector<Tensor>& in) { return in[0] * in[0] * in[1]; };
  const std::vector<Tensor> j = jacobian(f, {a, b});
  REQUIRE(j.size() == 2);
  CHECK(j[0].to_vector<double>() == Values{6, 0, 0, 12});
  CHECK(j[1].shape() == Shape{2, 1});
  CHECK(j[1].to_vector<double>() == Values{1, 4});
  const auto h = hessian([&](const auto& in) { return f(in).sum(); }, {a, b});
  REQUIRE(h.size() == 2);
  CHECK(h[0][0].to_vector<double>() == Values{6, 0, 0, 6});
  CHECK(h[0][1].to_vector<double>() == Values{2, 4});
  CHECK(h[1][0].shape() == Shape{1, 2});
  CHECK(h[1][0].to_vector<double>() == Values{2, 4});
  CHECK(h[1][1].to_vector<double>() == Values{0});
}

TEST_CASE("hessian has the second derivatives, and products with vectors are its products") {
  const Tensor x = doubles({2.0, 5.0}), v = doubles({1.0, -1.0});
  const Tensor h = hessian(cubic, x);
  CHECK(h.to_vector<double>() == Values{12, 10, 10, 4});
  for (const OutputProduct& got : {hvp(cubic, x, v), vhp(cubic, x, v)}) {
    CHECK(got.output.item() == 58.0);
    CHECK(got.product.to_vector<double>() == Values{2, 6});
    CHECK(!got.product.requires_grad());
  }
  const OutputProduct forward = jvp(squares, x, v), backward = vjp(squares, x, v);
  CHECK(forward.output.to_vector<double>() == Values{6, 27});
  CHECK(forward.product.to_vector<double>() == Values{5, -9});
  CHECK(backward.product.to_vector<double>() == Values{4, -10});
  CHECK(vjp(cubic, x).product.to_vector<double>() == Values{37, 20});
  const OutputProducts two =
      vjp([](const auto& in) { return in[0] * in[1]; }, {x, v}, doubles({1.0, 1.0}));
  CHECK(two.products[0].to_vector<double>() == Values{1, -1});
  CHECK(two.products[1].to_vector<double>() == Values{2, 5});
}

TEST_CASE("functional derivatives are recorded with create_graph, also without grad mode") {
  const Tensor x = doubles({2.0, 5.0}, true);
  const NoGrad no_grad;
  const Tensor plain = hessian(cubic, x);
  CHECK(!plain.requires_grad());
  CHECK(plain.to_vector<double>() == Values{12, 10, 10, 4});
  CHECK(!x.grad().defined());
  const Tensor recorded = hessian(cubic, x, {.create_graph = true});
  REQUIRE(recorded.requires_grad());
  const OutputProduct product = jvp(squares, x, doubles({1.0, 1.0}), {.create_graph = true});
  const EnableGrad recording;
  CHECK(grad(recorded[0][0], x).to_vector<double>() == Values{6, 0});
  CHECK(grad(product.product[1], x).to_vector<double>() == Values{0, 2});
  // What is differentiated is this use of x, not another one.
  const Tensor other = x * 3.0;
  CHECK(jacobian([&](const Tensor& in) { return in * other; }, x).to_vector<double>() ==
        Values{6, 0, 0, 15});
}

TEST_CASE("an input without effect has the derivative 0, or is refused") {
  const Tensor x = doubles({1.0, 2.0}), v = doubles({1.0, 1.0});
  const auto constant = [&](const Tensor&) { return doubles({3.0}); };
  const auto linear = [](const Tensor& in) { return in.sum(); };
  CHECK(jacobian(constant, x).to_vector<double>() == Values{0, 0});
  CHECK(hessian(linear, x).to_vector<double>() == Values{0, 0, 0, 0});
  CHECK(hvp(linear, x, v).product.to_vector<double>() == Values{0, 0});
  CHECK(jvp(constant, x, v).product.to_vector<double>() == Values{0});
  CHECK(vjp(constant, x).product.to_vector<double>() == Values{0, 0});
  CHECK_THROWS_WITH(jacobian(constant, x, {.strict = true}),
                    Equals("jacobian: the result does not depend on input 0"));
  CHECK_THROWS_WITH(hvp(linear, x, v, {.strict = true}),
                    Equals("hvp: the result does not depend on input 0"));
  CHECK_THROWS_WITH(hessian(linear, x, {.strict = true}),
                    Equals("hessian: the result does not depend on input 0"));
}

TEST_CASE("functional derivatives say what does not fit") {
  const Tensor x = doubles({1.0, 2.0});
  CHECK_THROWS_WITH(hessian(squares, x), Equals("hessian: the function must return one element, "
                                                "not [2]"));
  const Tensor deep = doubles({1.0}).reshape({1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(hessian([](const Tensor& of) { return sum(of * of); }, deep),
                    Equals("hessian: more than 8 dimensions: [1, 1, 1, 1, 1] and [1, 1, 1, 1, 1]"));
  CHECK_THROWS_WITH(jacobian(squares, deep), StartsWith("jacobian: more than 8 dimensions"));
  CHECK_THROWS_WITH(vjp(squares, x), Equals("vjp: needs v, as the function returns [2]"));
  CHECK_THROWS_WITH(vjp(squares, x, doubles({1.0})),
                    Equals("vjp: v [1] does not fit the output [2]"));
  CHECK_THROWS_WITH(jvp(squares, x, doubles({1.0})),
                    Equals("jvp: vector [1] does not fit the input [2]"));
  CHECK_THROWS_WITH(jacobian(squares, tensor({1, 2})),
                    StartsWith("jacobian: an input is int64; convert"));
  CHECK_THROWS_WITH(jacobian(squares, Tensor()), StartsWith("jacobian: "));
  CHECK_THROWS_WITH(
      jacobian([](const std::vector<Tensor>& in) { return in[0]; }, std::vector<Tensor>{}),
      Equals("jacobian: there is no input to differentiate for"));
}

TEST_CASE("one step of Newton's method finds the minimum of a quadratic") {
  const Tensor a = doubles({4, 1, 1, 3}).reshape({2, 2}), b = doubles({1, 2});
  const auto f = [&](const Tensor& x) { return 0.5 * dot(x, mv(a, x)) - dot(b, x); };
  const Tensor x = doubles({10.0, -7.0});
  const Tensor step = solve(hessian(f, x), vjp(f, x).product.unsqueeze(1)).squeeze(1);
  CHECK(allclose(mv(a, x - step), b));
}
