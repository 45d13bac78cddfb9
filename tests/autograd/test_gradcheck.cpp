#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/core/functions/map.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor input(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

// Right values, wrong derivative: 3x^2 instead of 2x.
struct WrongSquare : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "wrong_square"; }
  Array forward(const Array& x) { return core::map<core::kernels::Square>(x); }
  Grads backward(const Tensor& g) override { return {g * square(input(0)) * 3.0}; }
};

// Right derivative, but written on arrays: its own derivative is lost.
struct ForgetfulSquare : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "forgetful_square"; }
  Array forward(const Array& x) { return core::map<core::kernels::Square>(x); }
  Grads backward(const Tensor& g) override { return {g * input(0).detach() * 2.0}; }
};

Tensor wrong_square(const std::vector<Tensor>& x) { return record(WrongSquare{}, x[0]); }
Tensor forgetful_square(const std::vector<Tensor>& x) { return record(ForgetfulSquare{}, x[0]); }

}  // namespace

TEST_CASE("gradcheck passes right gradients of one and of several outputs") {
  const auto one = [](const std::vector<Tensor>& x) { return sin(x[0]) * exp(x[1]); };
  const auto two = [](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{x[0] * x[1], square(x[0]), x[0] > x[1]};
  };
  const std::vector<Tensor> inputs = {input({0.3, -1.2, 2.0}), input({0.5, 1.5, -0.7})};
  CHECK(gradcheck(one, inputs));
  CHECK(gradgradcheck(one, inputs));
  CHECK(gradcheck(two, inputs));
  CHECK(gradgradcheck(two, inputs));
}

TEST_CASE("gradcheck names the input, the element and both values of a wrong gradient") {
  const std::vector<Tensor> inputs = {input({0.5, 2.0})};
  REQUIRE_THROWS_WITH(gradcheck(wrong_square, inputs),
                      ContainsSubstring("gradcheck: input 0 element [0]: analytic") &&
                          ContainsSubstring("numeric"));
  CHECK_FALSE(gradcheck(wrong_square, inputs, {.raise_exception = false}));
}

TEST_CASE("gradcheck sees a wrong gradient along random directions where elements are too many") {
  const std::vector<Tensor> inputs = {input({0.5, 2.0, 3.0})};
  REQUIRE_THROWS_WITH(gradcheck(wrong_square, inputs, {.max_elements = 2}),
                      ContainsSubstring("along a random direction"));
}

TEST_CASE("gradgradcheck sees a derivative that cannot be differentiated again") {
  const std::vector<Tensor> inputs = {input({0.5, 2.0})};
  CHECK(gradcheck(forgetful_square, inputs));
  REQUIRE_THROWS_WITH(gradgradcheck(forgetful_square, inputs),
                      ContainsSubstring("gradgradcheck: input 0 element [0]"));
}

TEST_CASE("gradcheck refuses inputs and functions that it cannot check") {
  const auto twice = [](const std::vector<Tensor>& x) { return x[0] * 2.0; };
  CHECK_THROWS_WITH(gradcheck(twice, {tensor({1.0}, {.requires_grad = true})}),
                    ContainsSubstring("input 0 is float32; finite differences need float64"));
  CHECK_THROWS_WITH(gradcheck(twice, {tensor({1.0}, {.dtype = kFloat64})}),
                    ContainsSubstring("no input requires grad"));
  double calls = 0.0;
  const auto counting = [&calls](const std::vector<Tensor>& x) { return x[0] * ++calls; };
  CHECK_THROWS_WITH(gradcheck(counting, {input({1.0})}),
                    ContainsSubstring("output 0 changes from call to call"));
}

TEST_CASE("gradcheck accepts views, expanded leaves, integer inputs and constant functions") {
  const Tensor x = input({1.0, 2.0, 3.0, 4.0});
  const auto cube = [](const std::vector<Tensor>& v) { return v[0] * v[0] * v[0]; };
  CHECK(gradcheck(cube, {x.reshape({2, 2}).t()}));
  const Tensor expanded(tensor({1.0, 2.0}, {.dtype = kFloat64}).array().expand({3, 2}), true);
  CHECK(gradcheck(cube, {expanded}));
  const auto scaled = [](const std::vector<Tensor>& v) { return v[0] * v[1]; };
  CHECK(gradcheck(scaled, {x, tensor({1, 2, 3, 4})}));
  const auto constant = [](const std::vector<Tensor>& v) { return ones_like(v[0]); };
  CHECK(gradcheck(constant, {x}));
  CHECK(gradgradcheck(constant, {x}));
}
