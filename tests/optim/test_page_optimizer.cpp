// The optimizer of docs/extending/adding_an_optimizer.md, and what the page says that it can do.
#include <algorithm>
#include <vector>

#include "optim/all_optimizers.h"

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace pages {

// [snippet: options]
struct SignumOptions {
  double lr = 1e-3;
  double momentum = 0.9;

  void check_values() const {
    check(lr >= 0.0, "signum: lr must be 0 or more: ", lr);
    check(momentum >= 0.0 && momentum < 1.0, "signum: momentum must be in [0, 1): ", momentum);
  }
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
  }
};
// [end]

// [snippet: optimizer]
/// Steps of one size in each direction: m = momentum m + (1 - momentum) g; p = p - lr sign(m).
/// Bernstein et al., arXiv 1802.04434.
class Signum : public optim::OptimizerOf<SignumOptions> {
 public:
  explicit Signum(const std::vector<Tensor>& params, const SignumOptions& options = {})
      : OptimizerOf("signum", params, options) {}
  explicit Signum(const std::vector<Group>& groups) : OptimizerOf("signum", groups) {}

 protected:
  std::vector<const char*> array_names(int) const override { return {"momentum"}; }

  void update(int group, State& state, const Array& grad) override {
    const NoGrad no_grad;
    const SignumOptions& o = options(group);
    const Tensor m(state.arrays[0].array);
    m.mul_(o.momentum).add_(Tensor(grad).to(m.dtype()), 1.0 - o.momentum);
    state.param.sub_((o.lr * sign(m)).to(state.param.dtype()));
  }
};
// [end]

}  // namespace pages

using pages::Signum;

TEST_CASE("the optimizer of the page steps by its formula, in groups, and learns") {
  const Tensor x = tensor({1.0, -1.0}, {.dtype = kFloat64, .requires_grad = true});
  Signum signum({x}, {.lr = 0.25, .momentum = 0.5});
  for (const auto& g : {std::vector<double>{4.0, -4.0}, {-3.0, 1.0}, {0.0, 8.0}}) {
    x.set_grad(tensor(g, {.dtype = kFloat64}));
    signum.step();
  }
  // m: 2, -2; then -0.5, -0.5; then -0.25, 3.75
  CHECK(x.to_vector<double>() == std::vector<double>{1.25, -0.75});

  const Tensor p = noise(50, 1), q = noise(50, 2);
  Signum both({{{p}, {.lr = 1e-2}}, {{q}, {.lr = 0.0}}});
  const Tensor before = q.detach().clone();
  for (int step = 0; step < 200; ++step) {
    both.zero_grad();
    sum(square(p) + square(q)).backward();
    both.step();
  }
  CHECK(amax(abs(p)).item() < 0.1);  // steps of one size swing about the minimum by a few of them
  CHECK(same_bits(q, before));
  CHECK_THROWS_WITH(Signum({p}, {.momentum = 1.0}),
                    ContainsSubstring("signum: momentum must be in"));
  both.set_option("momentum", 0.5, 1);
  CHECK(both.option("momentum", 1) == 0.5);
}

TEST_CASE("the optimizer of the page resumes, and shards step to the bits of the whole") {
  const Tensor straight = noise(37, 3), first = noise(37, 3), second = noise(37, 3);
  Signum one({straight}), until({first});
  for (int step = 0; step < 6; ++step) {
    give_gradients({straight}, step);
    one.step();
    if (step >= 3) continue;
    give_gradients({first}, step);
    until.step();
  }
  const NoGrad no_grad;
  second.copy_(first);
  Signum resumed({second});
  resumed.load_state_dict(until.state_dict());
  for (int step = 3; step < 6; ++step) {
    give_gradients({second}, step);
    resumed.step();
  }
  CHECK(same_bits(second, straight));

  const Tensor whole = noise(37, 3);
  for (int part = 0; part < 3; ++part) {
    const int64_t begin = part * 13, end = std::min<int64_t>(begin + 13, 37);
    const Tensor shard(whole.array().slice(0, begin, end).clone(), true);
    Signum own({shard});
    for (int step = 0; step < 6; ++step) {
      shard.set_grad(Tensor(noise(37, 100 + step).array().slice(0, begin, end)));
      own.step();
    }
    CHECK(same_bits(shard, Tensor(straight.array().slice(0, begin, end).clone())));
  }
}

TEST_CASE("the optimizer of the page keeps its state of halves in float32") {
  const Tensor half(noise(16, 4).array().to(kBFloat16), true);
  Signum signum({half}, {.lr = 0.5});
  half.set_grad(ones({16}).to(kBFloat16));
  const Tensor before = half.detach().clone();
  signum.step();
  CHECK(allclose(before.to(kFloat32) - half.detach().to(kFloat32), full({16}, 0.5), 0.0, 0.004));
  const optim::StateDict state = signum.state_dict();
  const auto momentum = std::find_if(state.begin(), state.end(), [](const auto& named) {
    return named.name == "state.0.momentum";
  });
  REQUIRE(momentum != state.end());
  CHECK(momentum->array.dtype() == kFloat32);
  optim::MasterWeights<Signum> masters({half}, {.lr = 0.5});
  half.set_grad(ones({16}).to(kBFloat16));
  masters.step();
  CHECK(masters.parameters()[0].dtype() == kFloat32);
  CHECK(same_bits(masters.parameters()[0].to(kBFloat16), half));
}
