#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/graph/engine.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

}  // namespace

TEST_CASE("set_data gives a leaf other values and leaves it the same tensor") {
  const Tensor x = leaf({1.0, 2.0}), same = x;
  int calls = 0;
  x.register_leaf_hook([&](const Tensor&) { ++calls; });
  sum(square(x)).backward();
  x.set_data(Array::full({2}, 3.0, kBFloat16));
  CHECK(is_same(x, same));
  CHECK(same.dtype() == kBFloat16);
  CHECK(x.requires_grad());
  CHECK(x.grad().dtype() == kBFloat16);
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2.0, 4.0});
  sum(square(x)).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{8.0, 10.0});
  CHECK(calls == 2);
  x.set_data(Array::empty({2}, kFloat32, kMeta));
  CHECK(x.device() == Device(kMeta));
  CHECK(x.grad().device() == Device(kMeta));
}

TEST_CASE("backward through a leaf whose values were replaced is an error, a new forward is not") {
  const Tensor x = leaf({1.0, 2.0});
  const Tensor saves = sum(square(x)), does_not = sum(x + 1.0);
  x.set_data(Array::full({2}, 3.0, kFloat64));
  const Tensor fresh = sum(square(x));
  CHECK_THROWS_WITH(saves.backward(), ContainsSubstring("set_data"));
  CHECK_THROWS_WITH(does_not.backward(), ContainsSubstring("set_data"));
  CHECK(!x.grad().defined());
  fresh.backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{6.0, 6.0});
}

TEST_CASE("set_data refuses what does not fit and leaves the tensor as it was") {
  const Tensor x = leaf({1.0, 2.0});
  CHECK_THROWS_WITH(x.set_data(Array::zeros({3})), ContainsSubstring("shape [3]"));
  CHECK_THROWS_WITH(x.set_data(Array::zeros({2}, kInt64)), ContainsSubstring("int64"));
  CHECK_THROWS_WITH(x.set_data(Array()), ContainsSubstring("undefined"));
  CHECK_THROWS_WITH(square(x).set_data(Array::zeros({2})), ContainsSubstring("square"));
  CHECK(x.to_vector<double>() == std::vector<double>{1.0, 2.0});
}

TEST_CASE("backward_running is true inside a pass, nested ones included, and only there") {
  const Tensor x = leaf({1.0});
  std::vector<bool> seen = {backward_running()};
  x.register_hook([&](const Tensor&) {
    const EnableGrad record;  // off inside a pass
    const Tensor z = leaf({1.0});
    square(z).backward();
    seen.push_back(backward_running());
    return Tensor();
  });
  square(x).backward();
  seen.push_back(backward_running());
  CHECK(seen == std::vector<bool>{false, true, false});
}
