#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

}  // namespace

TEST_CASE("a tensor hook sees and replaces the complete gradient") {
  const Tensor x = leaf({2.0});
  int calls = 0;
  const Tensor y = x * 3.0;
  HookHandle handle = y.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 10.0;
  });
  (y + y).backward({.retain_graph = true});
  CHECK(calls == 1);
  CHECK(x.grad().item() == 60.0);
  handle.remove();
  x.set_grad({});
  (y * 1.0).backward({.retain_graph = true});
  CHECK(calls == 1);
  CHECK(x.grad().item() == 3.0);
}

TEST_CASE("a leaf's hooks run once a backward, in order, after its gradient is stored") {
  const Tensor x = leaf({2.0});
  std::vector<double> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.item());
    return Tensor();
  });
  x.register_leaf_hook([&](const Tensor& w) { seen.push_back(w.grad().item() * 100.0); });
  (x * 2.0 + x * 3.0).backward();
  CHECK(seen == std::vector<double>{5.0, 500.0});
  (x * 1.0).backward();
  CHECK(seen == std::vector<double>{5.0, 500.0, 1.0, 600.0});
}

TEST_CASE("a hook that returns another shape is an error") {
  const Tensor x = leaf({2.0});
  x.register_hook([](const Tensor&) { return ones({3}); });
  CHECK_THROWS_WITH((x * 2.0).backward(), ContainsSubstring("hook"));
}

TEST_CASE("what a hook returns has the dtype of the gradient it replaces") {
  const Tensor x = ones({2, 3}, {.requires_grad = true}), w = ones({4, 3}, {.requires_grad = true});
  const Tensor y = linear(x, w);
  y.register_hook([](const Tensor& g) { return (g * 3.0).to(kFloat64); });
  sum(y).backward();
  CHECK(x.grad().dtype() == kFloat32);
  CHECK(x.grad().to_vector<float>() == std::vector<float>(6, 12.0f));
  CHECK(w.grad().to_vector<float>() == std::vector<float>(12, 6.0f));
}

TEST_CASE("callbacks run when the whole backward has ended") {
  const Tensor x = leaf({1.0}), y = leaf({1.0});
  std::vector<std::string> events;
  x.register_leaf_hook([&](const Tensor&) {
    events.push_back("x");
    on_backward_end([&] { events.push_back("end"); });
  });
  y.register_leaf_hook([&](const Tensor&) { events.push_back("y"); });
  (y * (x * 2.0)).backward();
  REQUIRE(events.size() == 3);
  CHECK(events.back() == "end");
}

TEST_CASE("a failed backward drops its callbacks") {
  const Tensor x = leaf({1.0});
  int calls = 0;
  x.register_leaf_hook([&](const Tensor&) {
    on_backward_end([&] { ++calls; });
    fail("stop");
  });
  CHECK_THROWS_WITH((x * 1.0).backward(), "stop");
  const Tensor y = leaf({1.0});
  (y * 1.0).backward();
  CHECK(calls == 0);
}

TEST_CASE("retain_grad keeps the gradient of an inner tensor") {
  const Tensor x = leaf({2.0});
  const Tensor y = square(x);
  y.retain_grad();
  (y * 5.0).backward();
  CHECK(y.grad().item() == 5.0);
}

TEST_CASE("retain_grad keeps the gradient of what an in-place operation made of a tensor") {
  const Tensor x = leaf({2.0});
  const Tensor y = square(x);
  y.retain_grad();
  double before = 0.0;
  y.register_hook([&](const Tensor& g) {
    before = g.item();
    return Tensor();
  });
  y.mul_(3.0);
  y.add_(1.0);
  (y * 5.0).backward();
  CHECK(y.grad().item() == 5.0);
  CHECK(before == 15.0);  // a hook stays with the values that it was registered for
  CHECK(x.grad().item() == 60.0);
}

TEST_CASE("a saved value that was changed in place is found at backward") {
  const Tensor x = leaf({2.0});
  const Tensor y = x * 1.0;
  const Tensor z = square(y);
  y.mul_(3.0);
  CHECK_THROWS_WITH(z.backward(), ContainsSubstring("square") && ContainsSubstring("in place"));
}

TEST_CASE("in-place operations record their own derivative") {
  const Tensor x = leaf({2.0, 3.0});
  const Tensor y = x * 1.0;
  y.mul_(y).add_(x).div_(2.0).sub_(1.0);  // (x^2 + x) / 2 - 1
  CHECK(y.to_vector<double>() == std::vector<double>{2.0, 5.0});
  y.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2.5, 3.5});
}

TEST_CASE("copy_, fill_ and clamp_ pass the gradient that is left") {
  const Tensor x = leaf({2.0, 5.0});
  const Tensor y = tensor({0.0, 0.0}, {.dtype = kFloat64});
  y.copy_(x * 2.0);
  y.clamp_(0.0, 6.0);
  y.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2.0, 0.0});
  const Tensor z = x * 1.0;
  z.fill_(7.0);
  z.sum().backward();
  CHECK(z.to_vector<double>() == std::vector<double>{7.0, 7.0});
  CHECK(x.grad().to_vector<double>() == std::vector<double>{2.0, 0.0});
}

TEST_CASE("what copy_ replaces has the gradient 0, as under fill_") {
  const Tensor x = leaf({2.0, 5.0});
  for (const bool broadcasts : {false, true}) {
    const Tensor y = x * 2.0;
    y.copy_(broadcasts ? tensor(7) : tensor({7, 7}));
    CHECK(y.dtype() == kFloat64);
    CHECK(y.to_vector<double>() == std::vector<double>{7.0, 7.0});
    REQUIRE(y.requires_grad());
    const Tensor loss = (y * x).sum();
    CHECK(grad(loss, x, {.retain_graph = true}).to_vector<double>() == std::vector<double>{7, 7});
    CHECK(grad(y.sum(), x).to_vector<double>() == std::vector<double>{0.0, 0.0});
  }
}

TEST_CASE("requires_grad_ of what an operation made only says what is so") {
  const Tensor x = leaf({2.0}), y = x * 3.0;
  CHECK(is_same(y.requires_grad_(), y));
  CHECK_FALSE(y.is_leaf());
  CHECK(grad(y, x).item() == 3.0);
  CHECK_THROWS_WITH(y.requires_grad_(false), ContainsSubstring("only leaves"));
}

TEST_CASE("a leaf that requires grad is not changed in place while recording") {
  const Tensor x = leaf({2.0});
  CHECK_THROWS_WITH(x.add_(1.0), ContainsSubstring("leaf"));
  CHECK(x.item() == 2.0);
  const NoGrad no_grad;
  x.add_(1.0);
  CHECK(x.item() == 3.0);
}

TEST_CASE("writes without recording reach every view and break no graph") {
  const Tensor w = leaf({1.0, 2.0});
  const Tensor view = w.slice(0, 1, 2);
  {
    const NoGrad no_grad;
    w.mul_(10.0);
  }
  CHECK(view.item() == 20.0);
  (view * 2.0).backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{0.0, 2.0});
}

TEST_CASE("an in-place operation on overlapping memory reads before it writes") {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  x.add_(x.t());
  CHECK(x.to_vector<float>() == std::vector<float>{2.0f, 5.0f, 5.0f, 8.0f});
}

TEST_CASE("the gradient's bytes are charged to the gradient tag and freed") {
  Ledger ledger;
  {
    const LedgerScope scope(ledger);
    const Tensor x = zeros({1000}, {.requires_grad = true});
    (x * 2.0).sum().backward();
    CHECK(ledger.live(MemoryTag::gradient) == 4000);
    CHECK(ledger.live(MemoryTag::activation) == 4000);  // x itself
  }
  CHECK(ledger.live() == 0);
}
