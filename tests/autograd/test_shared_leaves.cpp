// Leaves that several threads compute with. Values are small whole numbers, so that sums are exact
// in any order and a lost one is seen. Threads record failures and the test's own thread checks
// them, as Catch2's checks belong to one thread.
#include <optional>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/on_threads.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using hero::test::on_threads;

namespace {

constexpr int kThreads = 4;

Tensor whole_numbers(const Shape& shape, uint64_t seed) {
  manual_seed(seed);
  return randint(-2, 3, shape).to(kFloat32);
}

}  // namespace

TEST_CASE("operations are recorded on one leaf by several threads", "[threads]") {
  const Tensor w = tensor({3.0, 4.0}, {.requires_grad = true});
  std::atomic<int64_t> nodes = 0;
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int) {
    for (int round = 0; round < 1500; ++round) {
      if (sum(w * w).item() != 25.0) ++wrong;
    }
    nodes += live_nodes();  // the first edge to w may be one thread's and the last another's
  });
  CHECK(wrong == 0);
  CHECK(nodes == 0);
  CHECK_FALSE(w.grad().defined());
  sum(w * w).backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{6.0, 8.0});
}

TEST_CASE("gradients that several threads find for one leaf add up", "[threads]") {
  constexpr int kRounds = 300;
  const Tensor w = whole_numbers({5, 3}, 1).requires_grad_();
  const Tensor b = whole_numbers({5}, 2).requires_grad_();
  std::vector<Tensor> inputs;
  Tensor expected = zeros({5, 3});
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(whole_numbers({4, 3}, 10 + static_cast<uint64_t>(i)));
    expected.add_(sum(inputs.back(), 0, true) * kRounds);
  }
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      sum(linear(inputs[static_cast<size_t>(i)], w, b)).backward();
    }
  });
  CHECK(equal(w.grad(), expected));
  CHECK(equal(b.grad(), full({5}, 4.0 * kRounds * kThreads)));
}

TEST_CASE("gradients of larger leaves add up too", "[threads]") {
  // Large enough for the thread pool, of which one thread at a time has the workers.
  const Tensor first = whole_numbers({256, 192}, 3).requires_grad_();
  const Tensor second = whole_numbers({64, 256}, 4).requires_grad_();
  const Tensor x = whole_numbers({48, 192}, 5);
  const auto loss = [&] { return sum(linear(relu(linear(x, first)), second)); };
  const std::vector<Tensor> alone = grad({loss()}, {first, second});
  constexpr int kRounds = 10;
  on_threads(kThreads, [&](int) {
    for (int round = 0; round < kRounds; ++round) loss().backward();
  });
  CHECK(equal(first.grad(), alone[0] * (kRounds * kThreads)));
  CHECK(equal(second.grad(), alone[1] * (kRounds * kThreads)));
}

TEST_CASE("grad() on several threads finds the leaf it was given", "[threads]") {
  const Tensor w = tensor({2.0, 3.0}, {.requires_grad = true});
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    const Tensor x = full({2}, i + 1.0);
    for (int round = 0; round < 400; ++round) {
      const Tensor g = grad(sum(w * w * x), w, {.create_graph = round % 4 == 0});
      if (!equal(g.detach(), w.detach() * x * 2)) ++wrong;
      if (g.requires_grad() && !equal(grad(sum(g), w), x * 2)) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("a graph outlives the thread that recorded it and is walked and freed on others",
          "[threads]") {
  const Tensor w = tensor({2.0}, {.requires_grad = true});
  std::vector<Tensor> outputs(kThreads);
  on_threads(kThreads, [&](int i) {
    Tensor y = w;
    for (int k = 0; k < 100; ++k) y = y * 1.0;
    outputs[static_cast<size_t>(i)] = y * (i + 1.0);
  });
  on_threads(kThreads, [&](int i) {
    outputs[static_cast<size_t>((i + 1) % kThreads)].backward({.retain_graph = true});
  });
  CHECK(w.grad().item() == 1.0 + 2.0 + 3.0 + 4.0);
  on_threads(kThreads, [&](int i) { outputs[static_cast<size_t>((i + 2) % kThreads)] = Tensor(); });
  sum(w * 5.0).backward();
  CHECK(w.grad().item() == 15.0);
}

TEST_CASE("a leaf dies with the last graph that holds it, on whatever thread", "[threads]") {
  Ledger ledger;
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> outputs(kThreads);
    {
      const LedgerScope scope(ledger);
      const Tensor w = ones({256}, {.requires_grad = true});
      on_threads(kThreads, [&](int i) { outputs[static_cast<size_t>(i)] = sum(w * w); });
    }
    CHECK(ledger.live() == 1024);
    on_threads(kThreads, [&](int i) { outputs[static_cast<size_t>(i)] = Tensor(); });
    CHECK(ledger.live() == 0);
  }
}

TEST_CASE("a graph may be a thread's last variable", "[threads]") {
  const Tensor w = tensor({2.0}, {.requires_grad = true});
  on_threads(kThreads, [&](int) {
    // Made before anything of the library's is used on the thread, so destroyed after all that.
    thread_local std::optional<Tensor> kept;
    kept = w;
    for (int k = 0; k < 50; ++k) kept = *kept * 1.0;
  });
  sum(w).backward();
  CHECK(w.grad().item() == 1.0);
}

TEST_CASE("threads walk through a graph that they share, when it is retained", "[threads]") {
  const Tensor w = whole_numbers({6, 6}, 6).requires_grad_();
  const Tensor x = whole_numbers({6, 6}, 7);
  const Tensor trunk = relu(matmul(x, w)) + w;
  const Tensor alone = grad(sum(trunk), w, {.retain_graph = true});
  constexpr int kRounds = 200;
  on_threads(kThreads, [&](int) {
    for (int round = 0; round < kRounds; ++round) {
      sum(trunk * 2.0).backward({.retain_graph = true});
    }
  });
  CHECK(equal(w.grad(), alone * (2.0 * kRounds * kThreads)));
}

TEST_CASE("hooks of a leaf come and go while threads run backward through it", "[threads]") {
  const Tensor w = tensor({2.0}, {.requires_grad = true});
  std::atomic<int> tensor_hooks = 0, leaf_hooks = 0, wrong = 0;
  w.register_leaf_hook([&](const Tensor& leaf) {
    ++leaf_hooks;
    if (!leaf.grad().defined()) ++wrong;
  });
  constexpr int kRounds = 200;
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      HookHandle handle;
      if (i == 0) {
        handle = w.register_hook([&](const Tensor&) {
          ++tensor_hooks;
          return Tensor();
        });
      }
      sum(w * 3.0).backward();
      handle.remove();
    }
  });
  CHECK(wrong == 0);
  CHECK(leaf_hooks == kRounds * kThreads);
  CHECK(tensor_hooks >= kRounds);
  CHECK(w.grad().item() == 3.0 * kRounds * kThreads);
}

TEST_CASE("a gradient is read and cleared while threads add to it", "[threads]") {
  const Tensor w = ones({16}, {.requires_grad = true});
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < 300; ++round) {
      if (i == 0) {
        const Tensor g = w.grad();
        if (g.defined() && g.shape() != w.shape()) ++wrong;
        w.set_grad({});
      } else {
        sum(w * 2.0).backward();
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("graphs that set_data left behind are freed on other threads", "[threads]") {
  const Tensor w = ones({4}, {.requires_grad = true});
  for (int round = 0; round < 100; ++round) {
    std::vector<Tensor> outputs(kThreads);
    on_threads(kThreads, [&](int i) { outputs[static_cast<size_t>(i)] = sum(w * w); });
    std::vector<Tensor> freed = outputs;
    outputs.resize(1);
    on_threads(kThreads, [&](int i) {
      if (i == 0) {
        w.set_data(Array::full({4}, round));
      } else {
        freed[static_cast<size_t>(i)] = Tensor();
      }
    });
    freed.clear();
    CHECK_THROWS_WITH(outputs[0].backward(), Catch::Matchers::ContainsSubstring("set_data"));
    sum(w * 2.0).backward();
  }
  CHECK(w.grad().to_vector<double>() == std::vector<double>(4, 200.0));
}

TEST_CASE("writes of several threads to parts of one storage are all counted", "[threads]") {
  const Tensor x = zeros({kThreads, 8});
  const uint32_t before = x.array().storage().version();
  constexpr int kWrites = 500;
  on_threads(kThreads, [&](int i) {
    const Tensor row = x[i];
    for (int k = 0; k < kWrites; ++k) row.add_(1.0);
  });
  CHECK(x.array().storage().version() - before == kThreads * kWrites);
  CHECK(equal(x, full({kThreads, 8}, 1.0 * kWrites)));
}

TEST_CASE("a backward inside a backward meets leaves that other threads walk to", "[threads]") {
  const Tensor w = tensor({2.0}, {.requires_grad = true});
  on_threads(kThreads, [&](int) {
    for (int round = 0; round < 100; ++round) {
      const Tensor y = w * 3.0;
      y.register_hook([&](const Tensor&) {
        const EnableGrad recording;
        sum(w * 5.0).backward();
        return Tensor();
      });
      sum(y + w).backward();
    }
  });
  CHECK(w.grad().item() == 9.0 * 100 * kThreads);
}

TEST_CASE("retain_grad of a tensor that is gone before backward") {
  const Tensor x = tensor({2.0}, {.requires_grad = true});
  Tensor y = x * 3.0;
  y.retain_grad();
  const Tensor z = sum(y * y);
  y = Tensor();
  std::vector<Tensor> others;  // what was freed is used again
  for (int i = 0; i < 64; ++i) others.push_back(ones({1}));
  z.backward();
  CHECK(x.grad().item() == 36.0);
  for (const Tensor& other : others) CHECK_FALSE(other.grad().defined());
}
