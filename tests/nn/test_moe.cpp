// Mixture of experts: compared with every token going through its experts one by one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/on_threads.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/random.h>
#include <hero/nn/moe.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using nn::ExpertActivation;
using test::noise, test::same;

namespace {

constexpr int64_t kMoEWidth = 6, kMoEHidden = 5, kMoEExperts = 4;

struct MoECase {
  const char* name;
  nn::MoEOptions options;
};

std::vector<MoECase> moe_cases() {
  return {
      {"mixtral", {}},
      {"switch", {.top_k = 1, .normalize_gates = false, .activation = ExpertActivation::relu}},
      {"two of softmax over all", {.normalize_gates = false, .bias = true}},
      {"all experts", {.top_k = kMoEExperts, .activation = ExpertActivation::gelu, .bias = true}},
      {"shared", {.top_k = 3, .activation = ExpertActivation::relu, .shared_experts = 2}},
      {"relu with bias", {.activation = ExpertActivation::relu, .bias = true}},
      {"losses", {.load_balance_coef = 0.5, .router_z_coef = 0.25}}};
}

Tensor moe_input(const Shape& shape, uint64_t seed = 5) {
  return Tensor(noise(shape, kFloat64, seed)).requires_grad_();
}

std::unique_ptr<nn::MoE> make_moe(const nn::MoEOptions& options, DType dtype = kFloat64) {
  manual_seed(3);
  auto moe = std::make_unique<nn::MoE>(kMoEWidth, kMoEHidden, kMoEExperts, options);
  // far from even, so that experts differ in tokens
  const NoGrad no_grad;
  moe->router.weight.copy_(Tensor(noise(moe->router.weight.shape(), kFloat32, 11)));
  moe->to(dtype);
  return moe;
}

Tensor expert_row(const Tensor& parameter, int64_t e) {
  return parameter.defined() ? select(parameter, 0, e) : Tensor();
}

Tensor one_expert(const nn::GroupedExperts& experts, ExpertActivation activation, int64_t e,
                  const Tensor& x) {
  const Tensor in = linear(x, select(experts.w1, 0, e), expert_row(experts.b1, e));
  Tensor hidden;
  if (activation == ExpertActivation::relu) hidden = relu(in);
  if (activation == ExpertActivation::gelu) hidden = gelu(in);
  if (activation == ExpertActivation::swiglu) {
    hidden = silu(in) * linear(x, select(experts.w3, 0, e), expert_row(experts.b3, e));
  }
  return linear(hidden, select(experts.w2, 0, e), expert_row(experts.b2, e));
}

struct ExpectedMoE {
  Tensor output, aux_loss;
};

// The definition: each token by itself, each of its experts by itself.
ExpectedMoE token_by_token(nn::MoE& moe, const Tensor& x) {
  const nn::MoEOptions& options = moe.options();
  const auto activation = options.activation;
  std::vector<Tensor> rows;
  Tensor mean_p, mean_z;
  std::vector<double> chosen(kMoEExperts, 0.0);
  const auto tokens = static_cast<double>(x.size(0));
  for (int64_t t = 0; t < x.size(0); ++t) {
    const Tensor token = select(x, 0, t);
    const Tensor logits = matmul(moe.router.weight, token);
    const Tensor p = exp(logits) / sum(exp(logits));
    mean_p = mean_p.defined() ? mean_p + p / tokens : p / tokens;
    const Tensor z = square(log(sum(exp(logits)))) / tokens;
    mean_z = mean_z.defined() ? mean_z + z : z;
    std::vector<int64_t> order(kMoEExperts);
    std::iota(order.begin(), order.end(), 0);
    const std::vector<double> values = logits.to_vector<double>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    Tensor total, result = zeros({kMoEWidth}, {.dtype = kFloat64});
    for (int64_t i = 0; i < options.top_k; ++i) {
      const Tensor e = exp(select(logits, 0, order[static_cast<size_t>(i)]));
      total = total.defined() ? total + e : e;
    }
    for (int64_t i = 0; i < options.top_k; ++i) {
      const int64_t e = order[static_cast<size_t>(i)];
      chosen[static_cast<size_t>(e)] += 1.0;
      const Tensor gate =
          options.normalize_gates ? exp(select(logits, 0, e)) / total : select(p, 0, e);
      result = result + gate * one_expert(moe.experts, activation, e, token);
    }
    if (moe.shared_experts) result = result + one_expert(*moe.shared_experts, activation, 0, token);
    rows.push_back(result);
  }
  for (double& n : chosen) n /= tokens * static_cast<double>(options.top_k);
  const Tensor balance =
      sum(tensor(chosen, {.dtype = kFloat64}) * mean_p) * static_cast<double>(kMoEExperts);
  return {stack(rows), balance * options.load_balance_coef + mean_z * options.router_z_coef};
}

std::vector<Tensor> gradients_of(nn::MoE& moe, const Tensor& x, const Tensor& output,
                                 const Tensor& aux_loss) {
  std::vector<Tensor> inputs = moe.parameters();
  inputs.push_back(x);
  const Tensor weights(noise(output.shape(), output.dtype(), 21));
  return grad({sum(output * weights) + aux_loss}, inputs);
}

}  // namespace

TEST_CASE("a mixture of experts computes each token by its experts", "[moe]") {
  for (const MoECase& c : moe_cases()) {
    CAPTURE(c.name);
    const auto moe = make_moe(c.options);
    const Tensor x = moe_input({13, kMoEWidth});
    const Tensor output = (*moe)(x);
    const ExpectedMoE expected = token_by_token(*moe, x);
    // float64; sums of at most 6 terms in another order
    CHECK(allclose(output, expected.output, 1e-12, 1e-13));
    CHECK(allclose(moe->aux_loss(), expected.aux_loss, 1e-12, 1e-13));
    const auto got = gradients_of(*moe, x, output, moe->aux_loss());
    const auto want = gradients_of(*moe, x, expected.output, expected.aux_loss);
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(allclose(got[i], want[i], 1e-11, 1e-12));
    }
    const nn::MoEStatistics statistics = moe->statistics();
    const auto& loads = statistics.tokens_per_expert;
    CHECK(std::accumulate(loads.begin(), loads.end(), int64_t{0}) == 13 * c.options.top_k);
    CHECK(statistics.dropped == 0);
  }
}

TEST_CASE("the gradients of a mixture of experts are those of finite differences", "[moe]") {
  for (const MoECase& c : moe_cases()) {
    CAPTURE(c.name);
    nn::MoEOptions options = c.options;
    options.router_z_coef = 0.125;
    const auto moe = make_moe(options);
    std::vector<Tensor> inputs = {moe_input({7, kMoEWidth})};
    for (const Tensor& p : moe->parameters()) inputs.push_back(p);
    const auto slots = moe->slots();
    CHECK(gradcheck(TensorsFunction([&](const std::vector<Tensor>& in) {
                      for (size_t i = 0, at = 1; i < slots.size(); ++i) {
                        if (slots[i].second->tensor.defined()) slots[i].second->tensor = in[at++];
                      }
                      const Tensor output = (*moe)(in[0]);
                      return std::vector<Tensor>{output, moe->aux_loss()};
                    }),
                    inputs));
  }
}

TEST_CASE("an expert takes the first tokens up to its capacity", "[moe]") {
  // Logits are the tokens themselves; expert e multiplies by e + 1.
  const nn::MoEOptions options{.top_k = 1,
                               .capacity_factor = 1.0,
                               .normalize_gates = false,
                               .activation = ExpertActivation::relu,
                               .load_balance_coef = 1.0};
  nn::MoE moe(2, 2, 2, options);
  const NoGrad no_grad;
  moe.router.weight.copy_(eye(2));
  moe.experts.w1.copy_(stack({eye(2), eye(2)}));
  moe.experts.w2.copy_(stack({eye(2), eye(2) * 2}));
  const Tensor x = tensor({{2., 0.}, {3., 0.}, {0., 1.}, {4., 0.}, {5., 0.}});
  const Tensor y = moe(x);
  // ceil(1 * 5 * 1 / 2) = 3: expert 0 is asked for by tokens 0, 1, 3, 4 and drops the last
  CHECK(moe.statistics().tokens_per_expert == std::vector<int64_t>{4, 1});
  CHECK(moe.statistics().dropped == 1);
  const auto gate = [](double logit) { return 1.0 / (1.0 + std::exp(-logit)); };
  const Tensor expected = tensor(
      {{2. * gate(2), 0.}, {3. * gate(3), 0.}, {0., 2. * gate(1)}, {4. * gate(4), 0.}, {0., 0.}});
  CHECK(allclose(y, expected, 1e-6, 0));
  CHECK(equal(select(y, 0, 4), zeros({2})));
  // 2 (4/5 P_0 + 1/5 P_1), counted before anything is dropped
  const double p0 = (gate(2) + gate(3) + (1 - gate(1)) + gate(4) + gate(5)) / 5;
  CHECK(moe.aux_loss().item() == Approx(2 * (0.8 * p0 + 0.2 * (1 - p0))).epsilon(1e-6));

  nn::MoE none(2, 2, 2, {.capacity_factor = 0.5, .activation = ExpertActivation::relu});
  none.router.weight.copy_(eye(2));
  none(x);  // both experts for every token: ceil(0.5 * 10 / 2) = 3 of 5 each
  CHECK(none.statistics().dropped == 4);
  CHECK(equal(slice(none(x), 0, 3), zeros({2, 2})));
}

TEST_CASE("figures of Mixtral's gates and of the auxiliary losses", "[moe]") {
  nn::MoE moe(
      1, 1, 3,
      {.activation = ExpertActivation::relu, .load_balance_coef = 0.01, .router_z_coef = 0.001});
  const NoGrad no_grad;
  moe.router.weight.copy_(tensor({0., std::log(3.0), std::log(6.0)}).reshape({3, 1}));
  moe.experts.w1.copy_(ones({3, 1, 1}));
  moe.experts.w2.copy_(tensor({1., 10., 100.}).reshape({3, 1, 1}));
  // logits 0, log 3, log 6; gates of the best two: 3 / 9 and 6 / 9; softmax 0.1, 0.3, 0.6
  const Tensor y = moe(ones({2, 1}));
  CHECK(y.to_vector<float>()[0] == Approx(10.0 / 3 + 200.0 / 3).epsilon(1e-6));
  CHECK(moe.statistics().tokens_per_expert == std::vector<int64_t>{0, 2, 2});
  const double z = std::log(10.0);
  CHECK(moe.aux_loss().item() ==
        Approx(0.01 * 3 * (0.5 * 0.3 + 0.5 * 0.6) + 0.001 * z * z).epsilon(1e-6));
  nn::MoE even(1, 1, 3, {.top_k = 3, .load_balance_coef = 1.0});
  even(ones({4, 1}));
  CHECK(even.aux_loss().item() == Approx(1.0).epsilon(1e-6));
}

TEST_CASE("of equal logits the lowest expert is first", "[moe]") {
  nn::MoE moe(kMoEWidth, kMoEHidden, kMoEExperts, {.top_k = 3});
  const NoGrad no_grad;
  moe.router.weight.zero_();
  moe(Tensor(noise({5, kMoEWidth})));
  CHECK(moe.statistics().tokens_per_expert == std::vector<int64_t>{5, 5, 5, 0});
}

TEST_CASE("what a token becomes does not depend on the others", "[moe]") {
  for (const MoECase& c : moe_cases()) {
    CAPTURE(c.name);
    const auto moe = make_moe(c.options, kFloat32);
    const Tensor x = Tensor(noise({3, 11, kMoEWidth})) / 3;
    const Tensor all = (*moe)(x);
    CHECK(all.shape() == x.shape());
    for (const int64_t t : {0, 7, 10}) {
      const Tensor alone = (*moe)(select(select(x, 0, 1), 0, t));
      CHECK(same(alone.array(), select(select(all, 0, 1), 0, t).contiguous().array()));
    }
  }
}

TEST_CASE("experts without tokens and batches without tokens have gradients of zero", "[moe]") {
  for (const MoECase& c : moe_cases()) {
    CAPTURE(c.name);
    const auto moe = make_moe(c.options);
    const Tensor none = moe_input({2, 0, kMoEWidth});
    const Tensor y = (*moe)(none);
    CHECK(y.shape() == Shape{2, 0, kMoEWidth});
    CHECK(moe->aux_loss().item() == 0.0);
    (sum(y) + moe->aux_loss()).backward();
    for (const auto& [name, p] : moe->named_parameters()) {
      CAPTURE(name);
      REQUIRE(p.grad().defined());
      CHECK(equal(p.grad(), zeros_like(p)));
    }
    CHECK(moe->statistics().tokens_per_expert == std::vector<int64_t>(kMoEExperts, 0));
  }
  const auto moe = make_moe({.top_k = 1, .normalize_gates = false});
  sum((*moe)(moe_input({1, kMoEWidth}))).backward();
  const auto loads = moe->statistics().tokens_per_expert;
  for (int64_t e = 0; e < kMoEExperts; ++e) {
    const Tensor g = select(moe->experts.w2.grad(), 0, e);
    CHECK(equal(g, zeros_like(g)) == (loads[static_cast<size_t>(e)] == 0));
  }
}

TEST_CASE("a token of NaN comes back as NaN and leaves the others alone", "[moe]") {
  for (const bool normalize : {true, false}) {
    const auto moe = make_moe({.normalize_gates = normalize}, kFloat32);
    const Tensor x(noise({4, kMoEWidth}));
    const Tensor before = (*moe)(x).detach();
    const Tensor bad = x.clone();
    select(bad, 0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    const Tensor after = (*moe)(bad);
    CHECK(all(isnan(select(after, 0, 2))).item() == 1.0);
    for (const int64_t t : {0, 1, 3}) {
      CHECK(same(select(after, 0, t).array(), select(before, 0, t).array()));
    }
  }
}

TEST_CASE("the router computes in float32, in a half and under autocast too", "[moe]") {
  const auto exact = make_moe({.load_balance_coef = 1.0}, kFloat32);
  const Tensor x = Tensor(noise({40, kMoEWidth})).to(kBFloat16);
  const auto half = make_moe({.load_balance_coef = 1.0}, kBFloat16);
  {
    const NoGrad no_grad;
    for (const auto& [name, p] : exact->named_parameters()) {
      p.copy_(half->get_parameter(name).to(kFloat32));
    }
  }
  const Tensor want = (*exact)(x.to(kFloat32)), got = (*half)(x);
  CHECK(got.dtype() == kBFloat16);
  CHECK(half->aux_loss().dtype() == kFloat32);
  CHECK(equal(half->aux_loss(), exact->aux_loss()));
  CHECK(half->statistics().tokens_per_expert == exact->statistics().tokens_per_expert);
  // bfloat16 has 8 bits; three roundings inside an expert, one of the sum
  CHECK(allclose(got.to(kFloat32), want, 0.02, 0.02));
  const Autocast autocast({.dtype = kBFloat16});
  const Tensor cast = (*exact)(x.to(kFloat32));
  CHECK(cast.dtype() == kBFloat16);
  CHECK(equal(half->aux_loss(), exact->aux_loss()));
  CHECK(allclose(cast.to(kFloat32), want, 0.02, 0.02));
}

TEST_CASE("a mixture of experts on meta spreads tokens evenly", "[moe]") {
  manual_seed(3);
  const auto direct =
      std::make_unique<nn::MoE>(kMoEWidth, kMoEHidden, kMoEExperts, nn::MoEOptions{});
  manual_seed(3);
  std::unique_ptr<nn::MoE> planned;
  {
    const nn::DeviceScope meta(kMeta);
    planned = std::make_unique<nn::MoE>(kMoEWidth, kMoEHidden, kMoEExperts, nn::MoEOptions{});
  }
  const Tensor x = empty({3, 3, kMoEWidth}, TensorOptions{.device = kMeta, .requires_grad = true});
  const Tensor y = (*planned)(x);
  CHECK(y.shape() == x.shape());
  CHECK(y.device() == kMeta);
  CHECK(planned->statistics().tokens_per_expert == std::vector<int64_t>{5, 5, 4, 4});
  (sum(y) + planned->aux_loss()).backward();
  CHECK(planned->experts.w2.grad().shape() == Shape{kMoEExperts, kMoEWidth, kMoEHidden});
  planned->zero_grad();  // on meta
  planned->materialize();
  for (const auto& [name, p] : direct->named_parameters()) {
    CHECK(same(planned->get_parameter(name).array(), p.array()));
  }
}

TEST_CASE("a checkpointed mixture of experts has the same gradients", "[moe]") {
  const auto moe = make_moe({}, kFloat32);
  const Tensor x = Tensor(noise({9, kMoEWidth})).requires_grad_();
  const Tensor plain = (*moe)(x);
  const auto want = gradients_of(*moe, x, plain, moe->aux_loss());
  const Tensor y = checkpoint([&](const Tensor& in) { return (*moe)(in); }, x);
  const auto got = gradients_of(*moe, x, y, moe->aux_loss());
  for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i].array(), want[i].array()));
}

TEST_CASE("threads share a mixture of experts", "[moe][threads]") {
  const auto moe = make_moe({}, kFloat32);
  const Tensor x(noise({8, kMoEWidth}));
  const Tensor alone = (*moe)(x).detach();
  std::atomic<int> wrong = 0;
  test::on_threads(4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      if (!equal((*moe)(x), alone)) ++wrong;
      if (moe->statistics().dropped != 0) ++wrong;
      if (!moe->aux_loss().defined()) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("what a mixture of experts refuses and how it prints", "[moe]") {
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.top_k = 3}),
                    ContainsSubstring("MoE: top_k is 3 of 2 experts"));
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.top_k = 0}), ContainsSubstring("MoE: top_k is 0"));
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.top_k = 1}),
                    ContainsSubstring("the router would not learn; set normalize_gates = false"));
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.capacity_factor = -1.0}),
                    ContainsSubstring("MoE: capacity_factor is -1"));
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.load_balance_coef = std::nan("")}),
                    ContainsSubstring("MoE: load_balance_coef is"));
  CHECK_THROWS_WITH(nn::MoE(4, 0, 2), ContainsSubstring("MoE: hidden is 0; it must be positive"));
  CHECK_THROWS_WITH(nn::MoE(4, 8, 2, {.shared_experts = -1}),
                    ContainsSubstring("MoE: shared_experts is -1"));
  nn::MoE moe(4, 8, 2);
  CHECK_THROWS_WITH(moe.aux_loss(), ContainsSubstring("before the first forward"));
  CHECK_THROWS_WITH(moe.statistics(), ContainsSubstring("before the first forward"));
  CHECK_THROWS_WITH(moe(zeros({3, 5})), ContainsSubstring("MoE: expected [.., 4], got [3, 5]"));
  CHECK_THROWS_WITH(moe.experts(zeros({3, 4}), {3}),
                    ContainsSubstring("GroupedExperts: 1 counts for 2 experts"));
  CHECK_THROWS_WITH(moe.experts(zeros({3, 5}), {3, 0}),
                    ContainsSubstring("GroupedExperts: expected [M, 4], got [3, 5]"));
  CHECK_THROWS_WITH(moe.experts(zeros({3, 4}), {1, 1}), ContainsSubstring("add up to 2"));
  nn::Linear other(2, 2);
  CHECK_THROWS_WITH(nn::moe_aux_loss(other), ContainsSubstring("Linear has no MoE layer"));
  CHECK(to_string(moe) ==
        "MoE(\n"
        "  top_k=2, capacity_factor=0.0, normalize_gates=True, load_balance_coef=0.01, "
        "router_z_coef=0.0\n"
        "  (router): Linear(in_features=4, out_features=2, bias=False)\n"
        "  (experts): GroupedExperts(width=4, hidden=8, experts=2, activation=swiglu, "
        "bias=False)\n"
        ")");
  struct Two : nn::Module {
    nn::MoE& a = add<nn::MoE>("a", 4, 8, 2, {.load_balance_coef = 0.5});
    nn::MoE& b = add<nn::MoE>("b", 4, 8, 2);
    Tensor forward(const Tensor& x) override { return b(x + a(x)); }
  } two;
  two(ones({3, 4}));
  CHECK(equal(nn::moe_aux_loss(two), two.a.aux_loss() + two.b.aux_loss()));
}
