#include <thread>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/functions/gradcheck.h>
#include <hero/core/functions/map.h>

using namespace hero;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

struct Cube : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "cube"; }
  Array forward(const Array& x) { return core::map<core::kernels::Pow>(x, Scalar(3.0)); }
  Grads backward(const Tensor& g) override { return {g * 3.0 * square(input(0))}; }
};

// [snippet: own operation]
/// x exp(-x^2), for floating x of any shape.
struct Bump : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;  // a bit for each input
  const char* name() const override { return "bump"; }
  Array forward(const Array& x) {
    const NoGrad no_grad;
    const Tensor t(x);
    return (t * exp(-square(t))).array();
  }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0);
    return {g * (1.0 - 2.0 * square(x)) * exp(-square(x))};
  }
};

Tensor bump(const Tensor& x) {
  check(is_floating(x.dtype()), "bump: x is ", x.dtype(), ", not floating; convert it with to()");
  return record(Bump{}, x);
}
// [end]

struct Wrong : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* name() const override { return "wrong"; }
  Array forward(const Array& x) { return x.clone(); }
  Grads backward(const Tensor& g) override { return {g, g}; }
};

struct Thrower : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  const char* name() const override { return "thrower"; }
  Array forward(const Array& x) { return x.clone(); }
  Grads backward(const Tensor&) override { fail("thrower: no"); }
};

// Notes its tag when backward reaches it.
struct Trace : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  std::vector<int>* order;
  int tag;
  Trace(std::vector<int>* o, int t) : order(o), tag(t) {}
  const char* name() const override { return "trace"; }
  Array forward(const Array& x) { return x.clone(); }
  Grads backward(const Tensor& g) override {
    order->push_back(tag);
    return {g};
  }
};

}  // namespace

TEST_CASE("backward adds to what grad() already holds") {
  const Tensor x = leaf({2.0});
  square(x).backward();
  square(x).backward();
  CHECK(x.grad().item() == 8.0);
  x.set_grad({});
  CHECK(!x.grad().defined());
}

TEST_CASE("a diamond sums the gradients of both ways") {
  const Tensor x = leaf({3.0});
  const Tensor a = x * 2.0, b = x * x;
  (a * b).backward();  // 2 x^3
  CHECK(x.grad().item() == 54.0);
}

TEST_CASE("one tensor on both sides of a product is counted twice") {
  const Tensor x = leaf({3.0});
  mul(x, x).backward();
  CHECK(x.grad().item() == 6.0);
}

TEST_CASE("the newest node runs first and a leaf's gradient is stored at once") {
  std::vector<int> order;
  const Tensor x = leaf({1.0}), w = leaf({1.0});
  w.register_leaf_hook([&](const Tensor&) { order.push_back(100); });
  x.register_leaf_hook([&](const Tensor&) { order.push_back(200); });
  const Tensor a = record(Trace(&order, 1), x);
  const Tensor b = record(Trace(&order, 2), x);
  const Tensor c = record(Trace(&order, 3), a * w);
  (b + c).backward();
  // w is complete once the product's gradient is known: before b and a.
  CHECK(order == std::vector<int>{3, 100, 2, 1, 200});
}

TEST_CASE("a million nodes are built, walked and freed without recursion") {
  const int64_t before = live_nodes();
  {
    const Tensor x = leaf({1.0});
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = y + 1;
    y.backward();
    CHECK(x.grad().item() == 1.0);
  }
  CHECK(live_nodes() == before);
}

TEST_CASE("no node outlives a training step") {
  const int64_t before = live_nodes();
  const Tensor w = leaf({0.5, -0.5});
  for (int step = 0; step < 3; ++step) {
    w.set_grad({});
    const Tensor loss = square(tanh(w) * 2.0 - 1.0).sum();
    loss.backward();
  }
  CHECK(live_nodes() == before);
}

TEST_CASE("a second backward needs retain_graph") {
  const Tensor x = leaf({2.0});
  const Tensor y = exp(x);
  y.backward({.retain_graph = true});
  y.backward();
  CHECK_THROWS_WITH(y.backward(), Catch::Matchers::ContainsSubstring("retain_graph"));
}

TEST_CASE("operations that saved nothing can run again") {
  const Tensor x = ones({2, 3}, {.requires_grad = true});
  const Tensor part = x.transpose(0, 1).slice(0, 0, 2);  // of two losses
  sum(part * part).backward();
  sum(part + part).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{4, 4, 0, 4, 4, 0});
}

TEST_CASE("grad() returns gradients and leaves the leaves alone") {
  const Tensor x = leaf({2.0}), unused = leaf({1.0});
  const Tensor y = x * x * x;
  const Tensor g = grad(y, x, {.retain_graph = true});
  CHECK(g.item() == 12.0);
  CHECK(!g.requires_grad());
  CHECK(!x.grad().defined());
  CHECK_THROWS_WITH(grad(y, unused, {.retain_graph = true}),
                    Catch::Matchers::ContainsSubstring("allow_unused"));
  CHECK(!grad(y, unused, {.retain_graph = true, .allow_unused = true}).defined());
  const std::vector<Tensor> listed = grad({y}, {x});
  CHECK(listed[0].item() == 12.0);
}

TEST_CASE("grad() reaches tensors inside the graph") {
  const Tensor x = leaf({2.0});
  const Tensor middle = square(x);
  const Tensor y = sin(middle) * middle;
  CHECK(grad(y, middle).item() == Approx(std::sin(4.0) + 4.0 * std::cos(4.0)));
}

TEST_CASE("gradients of several outputs add up, each with its own weight") {
  const Tensor x = leaf({1.0, 2.0});
  const Tensor weights = tensor({10.0, 100.0}, {.dtype = kFloat64});
  const auto gradients =
      grad({x * 2.0, square(x).sum()}, {x}, {.grad_outputs = {weights, Tensor()}});
  CHECK(gradients[0].to_vector<double>() == std::vector<double>{22.0, 204.0});
}

TEST_CASE("derivatives of any order come from create_graph") {
  const Tensor x = leaf({0.7});
  Tensor y = sin(x);
  const double expected[] = {std::cos(0.7), -std::sin(0.7), -std::cos(0.7), std::sin(0.7),
                             std::cos(0.7)};
  for (double value : expected) {
    y = grad(y, x, {.create_graph = true});
    CHECK(y.item() == Approx(value).epsilon(1e-14));  // a few roundings of double
  }
}

TEST_CASE("backward with create_graph makes grad() differentiable") {
  const Tensor x = leaf({3.0});
  (x * x * x).backward({.create_graph = true});
  CHECK(x.grad().requires_grad());
  CHECK(grad(x.grad(), x).item() == 18.0);
  x.set_grad({});  // x.grad() holds x's graph: the one cycle a user can make
}

TEST_CASE("a user's own operation is one struct, differentiable twice") {
  const Tensor x = leaf({2.0});
  const Tensor y = record(Cube{}, x);
  CHECK(y.item() == 8.0);
  const Tensor g = grad(y, x, {.create_graph = true});
  CHECK(g.item() == 12.0);
  CHECK(grad(g, x).item() == 12.0);
}

TEST_CASE("a user's own operation may compute with tensors") {
  manual_seed(1);
  const Tensor x = randn({3, 4}, {.dtype = kFloat64, .requires_grad = true});
  const auto of_x = [](const std::vector<Tensor>& in) { return bump(in[0]); };
  CHECK(gradcheck(of_x, {x}));
  CHECK(gradgradcheck(of_x, {x}));
  CHECK(bump(zeros({2, 3}, {.device = kMeta})).shape() == Shape{2, 3});
  CHECK_THROWS_WITH(bump(tensor({1, 2})), "bump: x is int64, not floating; convert it with to()");
}

TEST_CASE("an operation that returns the wrong number of gradients is named") {
  const Tensor x = leaf({2.0});
  CHECK_THROWS_WITH(record(Wrong{}, x).backward(),
                    Catch::Matchers::ContainsSubstring("wrong: backward gave 2 gradients for 1"));
}

TEST_CASE("an error inside backward leaves recording as it was") {
  const Tensor x = leaf({2.0});
  CHECK_THROWS_WITH(record(Thrower{}, x).backward(), "thrower: no");
  CHECK(grad_enabled());
  square(x).backward();
  CHECK(x.grad().item() == 4.0);
}

TEST_CASE("broadcasting is undone in the gradient") {
  const Tensor row = leaf({1.0, 2.0, 3.0});
  const Tensor column = tensor({10.0, 20.0}, {.dtype = kFloat64, .requires_grad = true});
  (row * unsqueeze(column, 1)).sum().backward();
  CHECK(row.grad().to_vector<double>() == std::vector<double>{30.0, 30.0, 30.0});
  CHECK(column.grad().to_vector<double>() == std::vector<double>{6.0, 6.0});
}

TEST_CASE("a gradient comes back in its input's dtype") {
  const Tensor x = tensor({1.5}, {.dtype = kBFloat16, .requires_grad = true});
  const Tensor y = leaf({2.0});
  (x * y).sum().backward();
  CHECK(x.grad().dtype() == kBFloat16);
  CHECK(x.grad().item() == 2.0);
  CHECK(y.grad().dtype() == kFloat64);
}

TEST_CASE("NoGrad stops recording and EnableGrad resumes it") {
  const Tensor x = leaf({1.0});
  {
    const NoGrad no_grad;
    CHECK(!(x * 2.0).requires_grad());
    const EnableGrad enable;
    CHECK((x * 2.0).requires_grad());
  }
  CHECK((x * 2.0).requires_grad());
  CHECK(!x.detach().requires_grad());
}

TEST_CASE("a backward inside a backward leaves the outer pass intact") {
  const Tensor w = leaf({3.0});
  const Tensor x = leaf({2.0});
  const Tensor y = w * x;
  y.register_hook([&](const Tensor& g) {
    const EnableGrad enable;
    square(w).backward();  // meets w, which the outer pass also waits for
    return g * 10.0;
  });
  (y + w).backward();
  CHECK(w.grad().item() == 6.0 + 20.0 + 1.0);
  CHECK(x.grad().item() == 30.0);
}

TEST_CASE("a graph recorded on another thread is walked here", "[threads]") {
  const Tensor x = leaf({2.0});
  Tensor y;
  std::thread([&] { y = square(x) * 3.0; }).join();
  (y * 2.0).backward();
  CHECK(x.grad().item() == 24.0);
}

TEST_CASE("threads record and walk graphs of their own side by side", "[threads]") {
  std::vector<double> results(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&results, t] {
      const Tensor x = leaf({static_cast<double>(t)});
      for (int i = 0; i < 100; ++i) square(x).backward();
      results[t] = x.grad().item();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(results == std::vector<double>{0.0, 200.0, 400.0, 600.0});
}

TEST_CASE("misuse is named in one line") {
  const Tensor x = leaf({1.0, 2.0});
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(square(x).backward(), ContainsSubstring("only a one-element output"));
  CHECK_THROWS_WITH(square(x).backward(ones({3})), ContainsSubstring("gradient of shape [3]"));
  CHECK_THROWS_WITH(tensor({1.0}).backward(), ContainsSubstring("does not require grad"));
  CHECK_THROWS_WITH(tensor({1, 2}).requires_grad_(), ContainsSubstring("int64"));
  CHECK_THROWS_WITH(Tensor() + x, ContainsSubstring("undefined"));
  CHECK_THROWS_WITH(x.item(), ContainsSubstring("exactly one element"));
  CHECK_THROWS_WITH(on_backward_end([] {}), ContainsSubstring("no backward pass"));
}
