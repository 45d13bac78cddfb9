#include <memory>
#include <optional>

#include "support/catch.h"
#include "support/on_threads.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/graph/op_scopes.h>
#include <hero/core/error.h>
#include <hero/core/profile/kernel_cost.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor weight(const Shape& shape) { return ones(shape, {.requires_grad = true}); }

/// Sums of the rows of one name, module and phase.
ProfileRow row_of(const Profile& profile, const std::string& name, const std::string& module,
                  ProfilePhase phase) {
  for (const ProfileRow& row : profile.rows) {
    if (row.name == name && row.module == module && row.phase == phase) return row;
  }
  return {};
}

int64_t calls(const Profile& profile, const std::string& name, const std::string& module,
              ProfilePhase phase) {
  return row_of(profile, name, module, phase).calls;
}

/// Counts all work of its thread.
struct Counting : core::CostMeter {
  void charge(const core::KernelCost& cost) override {
    flops += cost.flops;
    bytes += cost.bytes;
  }
  int64_t flops = 0, bytes = 0;
};

/// A loss of two layers, each in a module of its own.
Tensor two_layers(const Tensor& x, const Tensor& first, const Tensor& second) {
  const std::string one = "net.first", two = "net.second";
  Tensor y;
  {
    const PlaceScope place(one);
    y = relu(matmul(x, first));
  }
  const PlaceScope place(two);
  return sum(matmul(y, second));
}

/// Fails where an operation has a shape it cannot compute with.
Tensor failing(const Tensor& x) { return matmul(x, ones({3, 3})); }

}  // namespace

TEST_CASE("operations are recorded with their module, derivatives with that of their operation") {
  const Tensor x = ones({4, 5}), first = weight({5, 6}), second = weight({6, 2});
  Profiler profiler;
  two_layers(x, first, second).backward();
  profiler.stop();
  const Profile profile = profiler.profile();
  for (const std::string module : {"net.first", "net.second"}) {
    CHECK(calls(profile, "matmul", module, ProfilePhase::forward) == 1);
    CHECK(calls(profile, "matmul", module, ProfilePhase::backward) == 1);
  }
  CHECK(calls(profile, "relu", "net.first", ProfilePhase::forward) == 1);
  CHECK(calls(profile, "relu", "net.first", ProfilePhase::backward) == 1);
  CHECK(calls(profile, "sum", "net.second", ProfilePhase::backward) == 1);
  CHECK(calls(profile, "accumulate_grad", "", ProfilePhase::backward) == 2);
  CHECK(calls(profile, "backward", "", ProfilePhase::part) == 1);
}

TEST_CASE("nothing is recorded before and behind a profiler, nor on other threads") {
  const Tensor x = ones({4, 5}), first = weight({5, 6}), second = weight({6, 2});
  two_layers(x, first, second).backward();
  Profiler profiler;
  hero::test::on_threads(2, [&](int) { two_layers(x, weight({5, 6}), weight({6, 2})).backward(); });
  CHECK(profiler.running());
  profiler.stop();
  CHECK_FALSE(profiler.running());
  CHECK(detail::open_scopes == 0);
  CHECK(core::observer == nullptr);
  CHECK(core::current_cost_meter() == nullptr);
  two_layers(x, first, second).backward();
  { const ProfileScope part("after"); }
  const Profile profile = profiler.profile();
  CHECK(profile.rows.empty());
  CHECK(profile.events.empty());
}

TEST_CASE("several threads have a profile each") {
  std::vector<Profile> profiles(3);
  hero::test::on_threads(3, [&](int thread) {
    Profiler profiler;
    const Tensor x = ones({2, 2});
    for (int i = 0; i <= thread; ++i) matmul(x, x);
    profiles[static_cast<size_t>(thread)] = profiler.profile();
  });
  for (int thread = 0; thread < 3; ++thread) {
    CHECK(calls(profiles[static_cast<size_t>(thread)], "matmul", "", ProfilePhase::forward) ==
          thread + 1);
  }
}

TEST_CASE("a second profiler of a thread is an error, and one after the other is none") {
  {
    const Profiler profiler;
    CHECK_THROWS_WITH(Profiler(), ContainsSubstring("profiler: one is open on this thread"));
    CHECK(profiler.running());
  }
  Profiler again;
  exp(ones({2}));
  CHECK(calls(again.profile(), "exp", "", ProfilePhase::forward) == 1);
}

TEST_CASE("intervals nest, and self times are counted once") {
  Profiler profiler;
  {
    const ProfileScope outer("outer");
    two_layers(ones({40, 50}), weight({50, 60}), weight({60, 2})).backward();
    const ProfileScope inner("inner");
    exp(ones({1000}));
  }
  profiler.stop();
  const Profile p = profiler.profile();
  double self = 0.0, outermost = 0.0;
  for (const ProfileRow& row : p.rows) {
    self += row.self_seconds;
    CHECK(row.self_seconds <= row.seconds + 1e-12);
  }
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Profile::Event& event = p.events[i];
    CHECK(event.seconds >= 0.0);
    if (event.depth == 0) {
      outermost += event.seconds;
      continue;
    }
    // its parent is the next to end one level up, and lies around it
    size_t parent = i + 1;
    while (p.events[parent].depth >= event.depth) ++parent;
    REQUIRE(p.events[parent].depth == event.depth - 1);
    CHECK(p.events[parent].begin <= event.begin);
    CHECK(p.events[parent].begin + p.events[parent].seconds >= event.begin + event.seconds - 1e-9);
  }
  CHECK(self == Approx(outermost));
  CHECK(outermost <= p.seconds);
  CHECK(row_of(p, "outer", "", ProfilePhase::part).seconds == Approx(outermost));
}

TEST_CASE("an operation made of others, and a derivative, is one interval") {
  Profiler profiler;
  const Tensor x = weight({3});
  sum(x * x * x).backward();
  const Profile p = profiler.profile();
  CHECK(calls(p, "mul", "", ProfilePhase::forward) == 2);
  CHECK(calls(p, "mul", "", ProfilePhase::backward) == 2);  // and not the products inside them
}

TEST_CASE("flops and bytes are those that the work meter sees") {
  const Tensor x = ones({4, 5}), first = weight({5, 6}), second = weight({6, 2});
  Counting outer;
  Profile p;
  {
    const core::CostScope scope(&outer);
    Profiler profiler;
    two_layers(x, first, second).backward();
    Array::ones({7}).clone();  // in no operation
    p = profiler.profile();
  }
  int64_t flops = 0, bytes = 0;
  for (const ProfileRow& row : p.rows) {
    flops += row.flops;
    bytes += row.bytes;
  }
  CHECK(flops == outer.flops);
  CHECK(bytes == outer.bytes);
  CHECK(row_of(p, "matmul", "net.first", ProfilePhase::forward).flops == 2 * 4 * 5 * 6);
  CHECK(row_of(p, "matmul", "net.second", ProfilePhase::backward).flops == 2 * 2 * 4 * 6 * 2);
  Counting alone;
  {
    const core::CostScope scope(&alone);
    two_layers(x, weight({5, 6}), weight({6, 2})).backward();  // no gradient there to add to
    Array::ones({7}).clone();
  }
  CHECK(flops == alone.flops);
  const Profiler without({.work = false});
  two_layers(x, first, second).backward();
  CHECK(row_of(without.profile(), "matmul", "net.first", ProfilePhase::forward).flops == 0);
}

TEST_CASE("the gradient of a bias alone is metered") {
  const Tensor x = ones({4, 5}), w = ones({2, 5}), bias = weight({2});
  const Profiler profiler;
  sum(linear(x, w, bias)).backward();
  const ProfileRow row = row_of(profiler.profile(), "linear", "", ProfilePhase::backward);
  CHECK(row.calls == 1);
  CHECK(row.flops == 4 * 2);
}

TEST_CASE("matrices without elements are metered as no work") {
  const Tensor none = ones({2, 0, 0}), rows = ones({3, 0}), square = eye(3);
  Profiler profiler;
  inv(none), det(none), cholesky(none), qr(none), eigh(none), lu_factor(none);
  qr(rows), svd(rows), lu_factor(rows);
  solve(square, rows), solve(none, ones({2, 0, 4})), lstsq(square, rows);
  solve_triangular(square, rows), cholesky_solve(rows, square), cholesky_inverse(ones({0, 0}));
  instance_norm(ones({0, 4, 3})), group_norm(ones({2, 4, 0}), 2), group_norm(ones({0, 4, 3}), 2);
  const Profile p = profiler.profile();
  for (const std::string name : {"inv", "cholesky", "qr", "eigh"}) {
    CHECK(calls(p, name, "", ProfilePhase::forward) > 0);
    CHECK(row_of(p, name, "", ProfilePhase::forward).flops == 0);
  }
}

TEST_CASE("an error inside leaves no interval open") {
  Profiler profiler;
  {
    const ProfileScope part("tried");
    CHECK_THROWS_AS(failing(ones({2, 2})), Error);
  }
  const Tensor x = weight({2});
  x.register_hook([](const Tensor&) -> Tensor { fail("hook: on purpose"); });
  CHECK_THROWS_WITH(sum(x * 2.0).backward(), ContainsSubstring("on purpose"));
  exp(ones({2}));
  const Profile p = profiler.profile();
  CHECK(calls(p, "matmul", "", ProfilePhase::forward) == 1);
  CHECK(calls(p, "tried", "", ProfilePhase::part) == 1);
  CHECK(calls(p, "backward", "", ProfilePhase::part) == 1);
  CHECK(p.rows[static_cast<size_t>(p.events.back().row)].name == "exp");
  CHECK(p.events.back().depth == 0);
}

TEST_CASE("a profiler that ends inside other scopes ends their intervals, and they end in peace") {
  auto profiler = std::make_unique<Profiler>();
  std::optional<Profiler> next;
  {
    const ProfileScope outer("outer");
    {
      const Autocast autocast({.dtype = kBFloat16});
      const DetectAnomaly anomaly;
      const ProfileScope inner("inner");
      profiler->stop();
      exp(ones({2}));
      next.emplace();
      exp(ones({2}));
    }
    log(ones({2}));
  }
  exp(ones({2}));
  const Profile p = profiler->profile();
  CHECK(calls(p, "outer", "", ProfilePhase::part) == 1);
  CHECK(calls(p, "inner", "", ProfilePhase::part) == 1);
  CHECK(calls(p, "exp", "", ProfilePhase::forward) == 0);
  next->stop();
  CHECK(calls(next->profile(), "exp", "", ProfilePhase::forward) == 2);
  CHECK(calls(next->profile(), "log", "", ProfilePhase::forward) == 1);
  CHECK(calls(next->profile(), "outer", "", ProfilePhase::part) == 0);
  CHECK(detail::open_scopes == 0);
}

TEST_CASE("a profiler goes on behind scopes that were open before it") {
  auto autocast = std::make_unique<Autocast>(AutocastOptions{.dtype = kBFloat16});
  auto anomaly = std::make_unique<DetectAnomaly>();
  Profiler profiler;
  anomaly.reset();
  autocast.reset();
  exp(ones({2}));
  CHECK(calls(profiler.profile(), "exp", "", ProfilePhase::forward) == 1);
}

TEST_CASE("what a checkpoint runs again is recorded as such") {
  const Tensor x = weight({3});
  Profiler profiler;
  sum(checkpoint([](const Tensor& t) { return exp(sin(t)); }, x)).backward();
  const Profile p = profiler.profile();
  CHECK(calls(p, "recompute", "", ProfilePhase::part) == 1);
  CHECK(calls(p, "exp", "", ProfilePhase::forward) == 1);
  CHECK(calls(p, "exp", "", ProfilePhase::recompute) == 1);
  CHECK(calls(p, "exp", "", ProfilePhase::backward) == 1);
}

TEST_CASE("memory is sampled when it changes") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  Profiler profiler;
  const Tensor kept = exp(exp(ones({1000})));
  for (int i = 0; i < 10; ++i) exp(ones({10}));
  const Profile p = profiler.profile();
  constexpr auto kActivation = static_cast<size_t>(MemoryTag::activation);
  CHECK(p.memory.front().time == p.begin);
  CHECK(p.memory.front().live[kActivation] == 4000);          // the ones
  CHECK(p.memory.back().live[kActivation] == 4000 + 2 * 40);  // with input and output
  for (size_t i = 1; i < p.memory.size(); ++i) {
    CHECK(p.memory[i].time >= p.memory[i - 1].time);
    CHECK(p.memory[i].live != p.memory[i - 1].live);
  }
}

TEST_CASE("intervals over the limit are in the sums alone") {
  Profiler profiler({.most_events = 3});
  for (int i = 0; i < 5; ++i) exp(ones({2}));
  const Profile p = profiler.profile();
  CHECK(p.events.size() == 3);
  CHECK(p.left_out >= 2);
  CHECK(calls(p, "exp", "", ProfilePhase::forward) == 5);
}

TEST_CASE("numbers of a profiler's options are checked") {
  CHECK_THROWS_WITH(Profiler({.steps = -1}), ContainsSubstring("profiler: steps"));
  CHECK_THROWS_WITH(Profiler({.most_events = -1}), ContainsSubstring("profiler: most_events"));
  CHECK(core::observer == nullptr);
}
