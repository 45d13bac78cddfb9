#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

// A square root whose derivative at 0 is wrong on purpose.
struct BadRoot : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "bad_root"; }
  Array forward(const Array& x) { return x.clone(); }
  Grads backward(const Tensor& g) override { return {g * 0.0 / input(0)}; }
};

}  // namespace

TEST_CASE("of what is written in place, the input that holds a nan is named") {
  const DetectAnomaly on({.infinities = true});
  const Tensor x = ones({3}), bad = tensor({std::nanf("")}), large = full({1}, 3e38f);
  CHECK_THROWS_WITH(x.scatter_add_(0, tensor({1}), bad), ContainsSubstring("because input 2"));
  const Tensor y = full({3}, 3e38f);
  CHECK_THROWS_WITH(y.index_add_(0, tensor({1}), large),
                    ContainsSubstring("written in place, with inputs of shapes [3], [1], [1] of "
                                      "which the others hold none"));
}

TEST_CASE("the first operation that makes a nan is an error with its name, shapes and place") {
  const Tensor x = leaf({1.0, -1.0});
  CHECK_NOTHROW(log(x));
  const DetectAnomaly on;
  CHECK(anomaly_enabled());
  CHECK_NOTHROW(log(abs(x)));
  CHECK_THROWS_WITH(log(x) * 2.0, Equals("log: the result of shape [2] holds nan, made from inputs "
                                         "of shapes [2] that hold none"));
  const std::string path = "mlp.fc2";
  const PlaceScope place(path);
  CHECK_THROWS_WITH(x / (x - x) * 0.0,
                    ContainsSubstring("mul: the result of shape [2] holds nan") &&
                        ContainsSubstring(", in mlp.fc2"));
}

TEST_CASE("a nan that came in from outside is told apart") {
  const Tensor data = tensor({1.0, std::numeric_limits<double>::quiet_NaN()});
  const DetectAnomaly on;
  CHECK_NOTHROW(where(isnan(data), 0.0, data));  // no result holds it
  CHECK_THROWS_WITH(sum(data), ContainsSubstring("sum: the result of shape [] holds nan because "
                                                 "input 0 of inputs [2] holds nan"));
}

TEST_CASE("infinities are an anomaly only when asked for") {
  const Tensor x = leaf({0.0});
  {
    const DetectAnomaly on;
    CHECK_NOTHROW(1.0 / x);
  }
  const DetectAnomaly on({.infinities = true});
  CHECK_THROWS_WITH(1.0 / x, ContainsSubstring("holds infinity"));
}

TEST_CASE(
    "in backward the operation whose derivative made the nan is named, and where it was recorded") {
  const Tensor x = leaf({0.0, 4.0});
  const DetectAnomaly on;
  Tensor y;
  {
    const std::string path = "head";
    const PlaceScope place(path);
    y = record(BadRoot{}, x * 1.0);
  }
  CHECK_THROWS_WITH(sum(y).backward(),
                    Equals("bad_root: backward made nan in the gradient of input 0 of shape [2], "
                           "from a gradient that holds none, in head"));
  CHECK(!x.grad().defined());
}

TEST_CASE("a nan given to backward is found at the first operation it reaches") {
  const Tensor x = leaf({1.0});
  const Tensor y = x * 2.0;
  const DetectAnomaly on;
  const Tensor nan(Array::full({1}, std::numeric_limits<double>::quiet_NaN(), kFloat64));
  CHECK_THROWS_WITH(y.backward(nan),
                    ContainsSubstring("mul") && ContainsSubstring("that reached its output"));
}

TEST_CASE("without a scope nothing is looked at, also after one was left by an error") {
  const Tensor x = leaf({-1.0});
  CHECK_THROWS(([&] {
    const DetectAnomaly on;
    return log(x);
  }()));
  CHECK(!anomaly_enabled());
  CHECK(log(x).item() != log(x).item());
}
