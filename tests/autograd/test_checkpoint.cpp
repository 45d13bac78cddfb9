// What checkpoint() promises: the gradients' bits, hooks, memory, and errors when it cannot.
#include <cstring>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/functions/map.h>
#include <hero/core/ledger.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.array().bytes(), b.array().bytes(),
                     static_cast<size_t>(a.array().nbytes())) == 0;
}

// Two layers with a residual path, dropout, a normalisation and a parameter used twice.
struct Block {
  Tensor w = randn({8, 8}, {.requires_grad = true});
  Tensor v = randn({8, 8}, {.requires_grad = true});
  Tensor gain = rand({8}, {.requires_grad = true});
  Tensor operator()(const Tensor& x) const {
    const Tensor h = dropout(gelu(linear(layer_norm(x, {8}, gain), w)), 0.3);
    return x + tanh(linear(h, v)) + linear(x, w);
  }
  std::vector<Tensor> parameters() const { return {w, v, gain}; }
};

// Gradients of input and parameters of three blocks; `call` runs one.
template <class Call>
std::vector<Tensor> gradients(Call&& call) {
  manual_seed(7);
  const std::vector<Block> blocks(3);
  const Tensor x = randn({4, 8}, {.requires_grad = true});
  Tensor y = x;
  for (const Block& block : blocks) y = call(block, y);
  sum(square(y)).backward();
  std::vector<Tensor> list = {x.grad(), rand({3})};  // the generator goes on as without
  for (const Block& block : blocks) {
    for (const Tensor& p : block.parameters()) list.push_back(p.grad());
  }
  return list;
}

// Keeps what it made on the way.
struct SquaredSine : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "squared_sine"; }
  Array forward(const Array& x) {
    const Array s = core::map<core::kernels::Sin>(x);
    stash(s, 0);
    return core::map<core::kernels::Square>(s);
  }
  Grads backward(const Tensor& g) override {
    return {g * 2.0 * Tensor(stashed(0)) * cos(input(0))};
  }
};

void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE(
    "checkpointed gradients have the bits of plain ones, with dropout and captured parameters") {
  const auto plain = gradients([](const Block& b, const Tensor& x) { return b(x); });
  check_same(plain, gradients([](const Block& b, const Tensor& x) { return checkpoint(b, x); }));
  // Every layer in a checkpoint inside a checkpoint.
  check_same(
      plain, gradients([](const Block& b, const Tensor& x) {
        return checkpoint(
            [b](const Tensor& z) { return checkpoint([b](const Tensor& u) { return b(u); }, z); },
            x);
      }));
}

TEST_CASE(
    "under autocast checkpointed gradients have the same bits, inside the scope or after it") {
  const auto with = [](bool on, bool inside) {
    manual_seed(3);
    const Block a, b;
    const Tensor x = randn({4, 8}, {.requires_grad = true});
    std::optional<Autocast> autocast(AutocastOptions{.dtype = kBFloat16});
    Tensor y = on ? checkpoint(b, checkpoint(a, x)) : b(a(x));
    y = sum(y);
    if (!inside) autocast.reset();
    y.backward();
    return std::vector<Tensor>{x.grad(), a.w.grad(), a.v.grad(), b.w.grad(), b.gain.grad()};
  };
  check_same(with(false, false), with(true, false));
  check_same(with(false, true), with(true, true));
}

TEST_CASE("activations are not kept: a block holds its input, backward one block at a time") {
  const int n = 8;
  const auto live_and_peak = [&](bool on) {
    Ledger ledger;
    const LedgerScope scope(ledger);
    const Tensor x = rand({100, 100}, {.requires_grad = true});
    const auto block = [](const Tensor& z) { return tanh(exp(tanh(exp(tanh(z))))); };
    const int64_t unit = x.array().nbytes(), before = ledger.live();
    Tensor y = x;
    for (int i = 0; i < n; ++i) y = on ? checkpoint(block, y) : block(y);
    y = sum(y);
    const int64_t live = (ledger.live() - before) / unit;
    ledger.reset_peak();
    y.backward();
    return std::pair{live, (ledger.peak() - before) / unit};
  };
  const auto [plain, plain_peak] = live_and_peak(false);
  const auto [live, peak] = live_and_peak(true);
  CHECK(plain == 5 * n);
  CHECK(live == n - 1);  // block inputs; x was there before, sum needs no input
  CHECK(plain_peak >= 5 * n);
  CHECK(peak <= n - 1 + 5 + 4);  // one block's, and tanh's derivative: g, y^2, 1 - y^2, product
}

TEST_CASE("the function runs once in forward and once in backward, and hooks fire once") {
  int calls = 0, second = 0, gradients_seen = 0, leaves = 0;
  const Tensor w = tensor({3.0f}, {.requires_grad = true});
  const Tensor x = tensor({2.0f}, {.requires_grad = true});
  w.register_leaf_hook([&](const Tensor&) { ++leaves; });
  const Tensor y = checkpoint(
      [&](const Tensor& z) {
        ++calls;
        second += recomputing();
        const Tensor h = square(z) * w;
        h.register_hook([&](const Tensor&) {
          ++gradients_seen;
          return Tensor();
        });
        return h * w;
      },
      x);
  CHECK(calls == 1);
  y.backward();
  CHECK(calls == 2);
  CHECK(second == 1);
  CHECK(gradients_seen == 1);
  CHECK(leaves == 1);
  CHECK(w.grad().item() == 24.0);
  CHECK(x.grad().item() == 36.0);
  CHECK(live_nodes() == 5);  // y's graph alone: three operations and two leaves
}

TEST_CASE("a checkpoint without an input that requires grad still trains what it captures") {
  const Tensor w = tensor({3.0f}, {.requires_grad = true});
  const Tensor y = checkpoint([&](const Tensor& x) { return square(x * w); }, tensor({2.0f}));
  CHECK(y.requires_grad());
  y.backward();
  CHECK(w.grad().item() == 24.0);
  CHECK(!checkpoint([](const Tensor& x) { return x * 2.0; }, tensor({2.0f})).requires_grad());
  const NoGrad no_grad;
  CHECK(!checkpoint([&](const Tensor& x) { return x * w; }, tensor({2.0f})).requires_grad());
}

TEST_CASE("grad, higher derivatives and retained graphs go through a checkpoint") {
  const Tensor x = tensor({0.5}, {.dtype = kFloat64, .requires_grad = true});
  const auto f = [](const Tensor& z) { return exp(sin(z)) * z; };
  const auto thrice = [&](const Tensor& y) {
    const Tensor first = grad(y, x, {.create_graph = true});
    const Tensor second = grad(first, x, {.create_graph = true});
    return std::vector<Tensor>{first.detach(), second.detach(), grad(second, x)};
  };
  check_same(thrice(f(x)), thrice(checkpoint(f, x)));
  const Tensor y = checkpoint(f, x);
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(x.grad().item() == 2.0 * grad(f(x), x).item());
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("ran through this graph before"));
}

TEST_CASE("a checkpointed function may take and return several tensors, and write in place") {
  const Tensor a = tensor({1.0f, 2.0f}, {.requires_grad = true});
  const Tensor b = tensor({3.0f, 4.0f}, {.requires_grad = true});
  const auto f = [](const Tensor& x, const Tensor& y) {
    const Tensor z = x + 1.0;
    z.mul_(y);
    z.mul_(y);
    return std::vector<Tensor>{z, x * y};
  };
  const auto run = [&](const std::vector<Tensor>& out) {
    const auto g = grad({sum(out[0] * out[1])}, {a, b});
    return g;
  };
  check_same(run(f(a, b)), run(checkpoint(f, a, b)));
}

TEST_CASE("checkpoint_sequential splits a chain and keeps the last piece") {
  int calls = 0;
  std::vector<std::function<Tensor(const Tensor&)>> chain;
  for (int i = 0; i < 7; ++i) {
    chain.push_back([&calls, i](const Tensor& x) {
      ++calls;
      return tanh(x * (1.0 + i));
    });
  }
  const Tensor x = tensor({0.3f, -0.1f}, {.requires_grad = true});
  const auto run = [&](int segments) {
    calls = 0;
    return grad(sum(checkpoint_sequential(chain, segments, x)), x);
  };
  const Tensor plain = run(1);
  CHECK(calls == 7);
  CHECK(same_bits(run(3), plain));
  CHECK(calls == 7 + 4);  // 2 + 2 + 3, the last three not again
  CHECK(same_bits(run(7), plain));
  CHECK_THROWS_WITH(checkpoint_sequential(chain, 8, x), ContainsSubstring("8 segments for 7"));
  CHECK_THROWS_WITH(checkpoint_sequential(chain, 0, x), ContainsSubstring("0 segments"));
}

TEST_CASE("what an operation keeps of its own goes and comes back too") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Tensor x = rand({1000}, {.requires_grad = true});
  const auto f = [](const Tensor& z) { return record(SquaredSine{}, z); };
  const Tensor plain = grad(sum(f(x)), x);
  const int64_t before = ledger.live();
  const Tensor y = checkpoint(f, x);
  CHECK(ledger.live() - before == 4000);  // y; the sine is not held
  CHECK(same_bits(grad(sum(y), x), plain));
  const NoGrad no_grad;
  CHECK(f(x).numel() == 1000);
}

TEST_CASE("modules, which cannot be copied, are referred to") {
  struct Scale {
    Scale() = default;
    Scale(const Scale&) = delete;
    Scale& operator=(const Scale&) = delete;
    Tensor operator()(const Tensor& x) { return tanh(x * w); }
    Tensor w = tensor({2.0f}, {.requires_grad = true});
  } a, b, c;
  const Tensor x = tensor({0.3f, -0.1f}, {.requires_grad = true});
  const std::vector<Tensor> wanted = {x, a.w, b.w, c.w};
  const auto plain = grad({sum(c(b(a(x))))}, wanted);
  check_same(plain, grad({sum(checkpoint(c, checkpoint(b, checkpoint(a, x))))}, wanted));
  const std::vector<Scale*> chain = {&a, &b, &c};
  check_same(plain, grad({sum(checkpoint_sequential(chain, 2, x))}, wanted));
}

TEST_CASE("running statistics move once in a checkpointed batch norm") {
  const Tensor x = randn({4, 3}, {.requires_grad = true}), mean = zeros({3}), var = ones({3});
  const auto f = [&](const Tensor& z) { return batch_norm(z, mean, var, {.training = true}); };
  const Tensor y = sum(square(checkpoint(f, x)));
  const std::vector<float> once = mean.to_vector<float>();
  y.backward();
  CHECK(mean.to_vector<float>() == once);
}

TEST_CASE("what cannot be run again the same way is an error that says why") {
  const Tensor x = tensor({2.0f}, {.requires_grad = true});
  const Tensor w = tensor({3.0f}, {.requires_grad = true});
  {
    const Tensor y = checkpoint([&](const Tensor& z) { return square(z) * w; }, x);
    const NoGrad no_grad;
    w.zero_();
    CHECK_THROWS_WITH(y.backward(), ContainsSubstring("changed in place between forward"));
  }
  {
    const Tensor z = x * 1.0;
    const Tensor y = checkpoint([](const Tensor& u) { return square(u); }, z);
    const NoGrad no_grad;
    z.zero_();
    CHECK_THROWS_WITH(y.backward(), ContainsSubstring("input 0 of shape [1] was changed"));
  }
  int calls = 0;
  Tensor y = checkpoint([&](const Tensor& u) { return ++calls == 1 ? square(u) : u * 2.0; }, x);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("saved 0 arrays instead of 1"));
  y = checkpoint([&](const Tensor& u) { return ++calls == 3 ? square(u) : square(square(u)); }, x);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("more than the first 1 arrays"));
  CHECK_THROWS_WITH(checkpoint([](const Tensor& u) { return square(u) * grad(square(u), u); }, x),
                    ContainsSubstring("runs a backward pass itself"));
  CHECK_THROWS_WITH(checkpoint(
                        [](const Tensor& u) {
                          return matmul(u, ones({2, 2}));
                        },
                        x),
                    ContainsSubstring("matmul"));
  CHECK(square(x).requires_grad());  // and the next operation is recorded as ever
  square(x).backward();
  CHECK(x.grad().item() == 4.0);
}
