// Distributions: values and gradients of torch.distributions, moments of draws, gradients of draws.
#include <cmath>
#include <fstream>
#include <limits>

#include "support/catch.h"
#include "support/golden_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/nn/distributions.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/distributions_discrete.h>

using namespace hero;
using namespace hero::distributions;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor tensor_of(const json& values, bool wants_grad = false) {
  const bool rows = values[0].is_array();
  std::vector<double> flat;
  const auto rows_of = static_cast<int64_t>(values.size());
  for (const json& row : values) {
    for (const json& x : rows ? row : json::array({row})) flat.push_back(x.get<double>());
  }
  const Shape shape =
      rows ? Shape{rows_of, static_cast<int64_t>(flat.size()) / rows_of} : Shape{rows_of};
  return Tensor(Array::from(flat, shape), wants_grad);
}

double number_of(const json& value) {
  if (value.is_string()) return value == "inf" ? kInf : -kInf;
  return value.get<double>();
}

// 1e-13: a few roundings of numbers up to 100
void check_values(const Tensor& found, const json& expected) {
  const std::vector<double> values = found.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = number_of(expected[i]);
    INFO(values[i] << " and " << wanted);
    CHECK((values[i] == wanted ||
           std::fabs(values[i] - wanted) <= 1e-13 * (1.0 + std::fabs(wanted))));
  }
}

Tensor finite_sum(const Tensor& x) { return sum(where(abs(x) < kInf, x, 0)); }

template <class D>
void check_case(const json& c, const D& p, const D& q,
                const std::map<std::string, Tensor>& params) {
  std::map<std::string, Tensor> out;
  const json& expected = c.at("out");
  out["log_prob"] = p.log_prob(tensor_of(c.at("value")));
  out["entropy"] = p.entropy();
  if (expected.contains("mean")) {
    out["mean"] = p.mean();
    out["variance"] = p.variance();
  }
  out["kl"] = kl_divergence(p, q);
  out["kl_back"] = kl_divergence(q, p);
  Tensor total = zeros({}, {.dtype = kFloat64});
  for (const auto& [name, values] : out) {
    INFO(name);
    check_values(values, expected.at(name));
    total = total + finite_sum(values);
  }
  total.backward();
  for (const auto& [name, param] : params) {
    INFO("gradient of " << name);
    check_values(param.grad(), c.at("grad").at(name));
  }
}

json distributions_golden() {
  std::ifstream file(test::golden_dir() + "/distributions.json");
  REQUIRE(file.good());
  return json::parse(file);
}

// The mean and variance of draws along dimension 0, within 5 deviations of what they should be.
void check_moments(const Distribution& d, double fourth) {
  manual_seed(3);
  const int64_t n = 20000;
  const Tensor x = d.sample({n}).to(kFloat64);
  CHECK(!x.requires_grad());
  const Tensor mean_error = abs(mean(x, {0}) - d.mean()) / d.stddev();
  CHECK(max(mean_error).item() < 5.0 / std::sqrt(static_cast<double>(n)));
  const Tensor spread = mean(square(x - d.mean()), {0}) / d.variance() - 1;
  CHECK(max(abs(spread)).item() < 5.0 * std::sqrt((fourth - 1.0) / static_cast<double>(n)));
}

}  // namespace

TEST_CASE("distributions have PyTorch's log probabilities, entropies, divergences and gradients") {
  const json all = distributions_golden();
  for (const auto& [name, c] : all.items()) {
    INFO(name);
    std::map<std::string, Tensor> p, q;
    for (const auto& [key, values] : c.at("params").items()) p[key] = tensor_of(values, true);
    for (const auto& [key, values] : c.at("others").items()) q[key] = tensor_of(values);
    if (name == "normal") {
      check_case(c, Normal(p["loc"], p["scale"]), Normal(q["loc"], q["scale"]), p);
    } else if (name == "uniform") {
      check_case(c, Uniform(p["low"], p["high"]), Uniform(q["low"], q["high"]), p);
    } else {
      const auto odds = [](const std::map<std::string, Tensor>& given) {
        ProbsOrLogits one;
        if (given.contains("probs")) one.probs = given.at("probs");
        if (given.contains("logits")) one.logits = given.at("logits");
        return one;
      };
      if (name.starts_with("bernoulli")) {
        check_case(c, Bernoulli(odds(p)), Bernoulli(odds(q)), p);
      } else {
        check_case(c, Categorical(odds(p)), Categorical(odds(q)), p);
      }
    }
  }
}

TEST_CASE("draws have the moments of their distribution") {
  const TensorOptions f64{.dtype = kFloat64};
  check_moments(Normal(tensor({0.0, -3.0}, f64), tensor({1.0, 0.25}, f64)), 3.0);
  check_moments(Uniform(tensor({0.0, -3.0}, f64), tensor({1.0, 5.0}, f64)), 1.8);
  const double p = 0.3;  // the fourth moment over the variance's square
  check_moments(Bernoulli({.probs = tensor({p}, f64)}), 1.0 / (p * (1.0 - p)) - 3.0);
}

TEST_CASE("categories come as often as their probabilities say, and impossible ones never") {
  manual_seed(4);
  const std::vector<double> odds = {0.0, 2.0, 5.0, 0.0, 3.0, 0.0};
  const Categorical d({.probs = tensor(odds)});
  const Tensor drawn = d.sample({10000});
  CHECK(drawn.dtype() == kInt64);
  for (size_t i = 0; i < odds.size(); ++i) {
    const double count = sum(drawn == static_cast<int64_t>(i)).item(), q = odds[i] / 10.0;
    CHECK(std::fabs(count - 1e4 * q) <= 5.0 * std::sqrt(1e4 * q * (1.0 - q)));
  }
  const Categorical rows({.logits = zeros({3, 4})});
  CHECK(rows.sample().shape() == Shape{3});
  CHECK(rows.sample({2, 5}).shape() == Shape{2, 5, 3});
  CHECK(rows.log_prob(rows.sample({2, 5})).shape() == Shape{2, 5, 3});
  CHECK(rows.batch_shape() == Shape{3});
  CHECK_THROWS_WITH(rows.mean(), ContainsSubstring("Categorical: categories have no mean"));
}

TEST_CASE("draws by rsample have gradients with respect to the parameters") {
  const auto normal = [](const std::vector<Tensor>& in) {
    manual_seed(5);
    return Normal(in[0], in[1]).rsample({3});
  };
  const auto uniform = [](const std::vector<Tensor>& in) {
    manual_seed(5);
    return Uniform(in[0], in[1]).rsample({3});
  };
  const TensorOptions leaf{.dtype = kFloat64, .requires_grad = true};
  const std::vector<Tensor> in = {tensor({0.5, -1.0}, leaf), tensor({1.0, 2.0}, leaf)};
  gradcheck(TensorFunction(normal), in);
  gradcheck(TensorFunction(uniform), in);
  manual_seed(5);
  const Tensor drawn = Normal(in[0], in[1]).sample({3});
  manual_seed(5);
  CHECK(equal(drawn, Normal(in[0], in[1]).rsample({3})));  // the same numbers
  CHECK_THROWS_WITH(Bernoulli({.probs = tensor({0.5})}).rsample(),
                    ContainsSubstring("Bernoulli: a draw is discrete"));
}

TEST_CASE("parameters broadcast, stay on meta, and are checked") {
  const Normal d(zeros({3, 1}), ones({4}));
  CHECK(d.batch_shape() == Shape{3, 4});
  CHECK(d.sample({2}).shape() == Shape{2, 3, 4});
  const Normal planned(zeros({3}, {.device = kMeta}), ones({3}, {.device = kMeta}));
  CHECK(planned.log_prob(planned.rsample({2})).shape() == Shape{2, 3});
  CHECK_THROWS_WITH(Normal(zeros({3}), tensor({1.0, std::nan(""), -1.0})),
                    ContainsSubstring("scale must be positive: it is nan at element 1 of [3]"));
  CHECK_THROWS_WITH(Uniform(ones({2}), ones({2})), ContainsSubstring("low must be less than high"));
  CHECK_THROWS_WITH(Bernoulli({.probs = tensor({1.5})}),
                    ContainsSubstring("must be in [0, 1]: it is 1.5 at element 0 of [1]"));
  CHECK_THROWS_WITH(Bernoulli({}), ContainsSubstring("give probs or logits"));
  CHECK_THROWS_WITH(Categorical({.probs = tensor({-0.5, 1.0})}),
                    ContainsSubstring("must not be negative"));
  CHECK_THROWS_WITH(Categorical({.probs = zeros({2})}), ContainsSubstring("must not all be 0"));
  CHECK_THROWS_WITH(Categorical({.probs = zeros({2}), .logits = zeros({2})}),
                    ContainsSubstring("not both"));
  CHECK_THROWS_WITH(Categorical({.logits = zeros({})}), ContainsSubstring("[.., K]"));
}

TEST_CASE("impossible categories leave entropy, divergence and their gradients finite") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    INFO(dtype);
    const Tensor logits =
        tensor({0.5, -std::numeric_limits<double>::infinity(), -1.0}, {.dtype = kFloat64})
            .to(dtype)
            .detach()
            .requires_grad_();
    const Tensor possible = tensor({0.5, -1.0}, {.dtype = kFloat64}).to(dtype).requires_grad_();
    const Categorical masked({.logits = logits}), plain({.logits = possible});
    const Categorical other({.logits = logits.detach() * 2}),
        less({.logits = possible.detach() * 2});
    const Tensor value = masked.entropy() * 3 + kl_divergence(masked, other);
    const Tensor wanted = plain.entropy() * 3 + kl_divergence(plain, less);
    CHECK(allclose(value, wanted, 2e-2, 2e-2));
    value.backward();
    wanted.backward();
    const Tensor expected =
        stack({possible.grad()[0], zeros({}, {.dtype = dtype}), possible.grad()[1]});
    CHECK(allclose(logits.grad(), expected, 5e-2, 5e-2));
    CHECK(logits.grad()[1].item() == 0.0);
  }
  const Tensor nan = tensor({0.0, std::nan("")});
  CHECK_THROWS_WITH(
      Categorical({.logits = nan}),
      ContainsSubstring("Categorical: logits must be numbers: it is nan at element 1"));
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(Categorical({.logits = full({2, 3}, -infinity)}),
                    ContainsSubstring("the largest logit must be finite: it is -inf at element 0"));
  CHECK_THROWS_WITH(Categorical({.logits = tensor({0.0, infinity})}),
                    ContainsSubstring("the largest logit must be finite"));
  CHECK_THROWS_WITH(Bernoulli({.logits = nan}), ContainsSubstring("logits must be numbers"));
  CHECK_THROWS_WITH(Normal(nan, ones({2})), ContainsSubstring("loc must be a number"));
  CHECK_THROWS_WITH(Categorical({.probs = tensor({1.0, std::numeric_limits<double>::infinity()})}),
                    ContainsSubstring("must be finite"));
}

TEST_CASE("certain events have finite logarithms in half precision, too") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const double epsilon = dtype == kFloat16 ? 0x1p-10 : 0x1p-7;
    const Bernoulli d({.probs = tensor({0.0, 1.0}).to(dtype)});
    const Tensor certain = d.log_prob(tensor({0.0, 1.0}).to(dtype));
    const Tensor impossible = d.log_prob(tensor({1.0, 0.0}).to(dtype));
    for (const int i : {0, 1}) {
      CHECK(std::fabs(certain[i].item() + epsilon) < 0.02 * epsilon);
      CHECK(std::fabs(impossible[i].item() - std::log(epsilon)) < 0.03);
    }
    CHECK(all(isfinite(d.entropy())).item() == 1.0);
  }
  // What is left of 1 - p is not lost beside the logarithm of its odds.
  const Tensor likely = Bernoulli({.logits = tensor({20.0})}).log_prob(ones({1}));
  CHECK(std::fabs(likely.item() / -std::log1p(std::exp(-20.0)) - 1.0) < 1e-6);
}

TEST_CASE("standard deviations do not need the variance to fit the dtype") {
  const Tensor scale = tensor({1e-30, 1e30}, {.requires_grad = true});
  const Tensor deviation = Normal(zeros({2}), scale).stddev();
  CHECK(equal(deviation, scale));
  deviation.sum().backward();
  CHECK(equal(scale.grad(), ones({2})));
  const Tensor wide = Uniform(zeros({1}), full({1}, 6e29)).stddev();
  CHECK(std::fabs(wide.item() / (6e29 / std::sqrt(12.0)) - 1.0) < 1e-6);
  const Tensor far = full({1}, 1e25), near = full({1}, 1e-25), zero = zeros({1}), one = ones({1});
  const auto same = [](const Distribution& d, double expected) {
    INFO(d.name());
    CHECK(std::fabs(d.stddev().item() / expected - 1.0) < 1e-5);
  };
  same(Exponential(near), 1e25);
  same(Laplace(zero, far), 1e25 * std::sqrt(2.0));
  same(Gumbel(zero, far), 1e25 * 3.14159265358979 / std::sqrt(6.0));
  same(HalfNormal(far), 1e25 * std::sqrt(1.0 - 2.0 / 3.14159265358979));
  same(LogNormal(full({1}, 50.0), one), std::sqrt(std::expm1(1.0)) * std::exp(50.5));
  same(Gamma(one * 4, near), 2e25);
  same(StudentT(one * 4, zero, far), 1e25 * std::sqrt(2.0));
  same(Independent(Normal(zero, far), 1), 1e25);
}

TEST_CASE("draws of bounded distributions stay where they have a probability") {
  manual_seed(3);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    INFO(to_string(dtype));
    const double low = dtype == kFloat32 ? 1000.0 : 1.0;
    const Uniform uniform(full({}, low, dtype), full({}, low + 1.0, dtype));
    const Tensor drawn = uniform.sample({1000000});
    CHECK(max(drawn).item() < low + 1.0);
    CHECK(all(isfinite(uniform.log_prob(drawn))).item<bool>());
    // Most draws are so near to 0 or 1 that the dtype has only these.
    const Beta beta(full({}, 0.01, dtype), full({}, 0.01, dtype));
    const Tensor parts = beta.sample({10000});
    CHECK(min(parts).item() > 0.0);
    CHECK(max(parts).item() < 1.0);
    CHECK(all(isfinite(beta.log_prob(parts))).item<bool>());
    CHECK(min(Dirichlet(full({3}, 0.01, dtype)).sample({10000})).item() > 0.0);
  }
}

TEST_CASE("divergences of extreme parameters") {
  const auto poisson = [](double p, double q) {
    return kl_divergence(Poisson(full({}, p)), Poisson(full({}, q))).item();
  };
  CHECK(poisson(0.0, 0.0) == 0.0);
  CHECK(poisson(0.0, 2.0) == 2.0);
  CHECK(poisson(1.0, 0.0) == HUGE_VAL);
  const auto geometric = [](double p, double q) {
    return kl_divergence(Geometric({.probs = full({}, p)}), Geometric({.probs = full({}, q)}))
        .item();
  };
  CHECK(geometric(1.0, 1.0) == 0.0);
  CHECK(std::fabs(geometric(1.0, 0.5) - std::log(2.0)) < 1e-6);
  CHECK(geometric(0.5, 1.0) == HUGE_VAL);
  const Tensor zero = zeros({}), one = ones({}), near = full({}, 1e-25);
  const double logarithm = std::log(1e25);
  CHECK(std::fabs(kl_divergence(Normal(zero, near), Normal(zero, one)).item() - logarithm + 0.5) <
        1e-4);
  CHECK(std::fabs(kl_divergence(HalfNormal(near), HalfNormal(one)).item() - logarithm + 0.5) <
        1e-4);
}
